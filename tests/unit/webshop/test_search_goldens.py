"""Search on the 1,000-product set, against recordings of the original's Lucene index."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search import bm25
from services.env_server.environments.webshop.search.analyzer import analyze
from services.env_server.environments.webshop.search.build import Document, Sizes, write_index
from services.env_server.environments.webshop.search.index import FullTextIndex
from services.env_server.environments.webshop.search.text import indexed_text
from services.env_server.environments.webshop.world import TooManyTermsError
from tests.data_paths import real_data


def records(relative: str) -> Iterator[dict[str, Any]]:
    with lzma.open(real_data(f"webshop/{relative}"), "rt") as lines:
        yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    def product(record: dict[str, Any]) -> Product:
        return Product(
            asin=record["asin"],
            category=record["category"],
            query=record["query"],
            product_category=record["product_category"],
            title=record["name"],
            description=record["description"],
            bullets=tuple(record["bullets"]),
            pricing=tuple(record["pricing"]),
            price_tag=record["price_tag"],
            options={name: tuple(values) for name, values in record["options"].items()},
            attributes=tuple(record["attributes"]),
            rating=record["rating"],
            main_image=record["main_image"],
            title_nouns=tuple(record["title_nouns"]),
        )

    products = map(product, records("products_1000.jsonl.xz"))
    return [Document(product.asin, indexed_text(product)) for product in products]


@pytest.fixture(scope="module")
def queries() -> list[dict[str, Any]]:
    return [record for record in records("goldens/search_goldens.jsonl.xz") if record["engine"] == "lucene"]


def assert_equal_to_recordings(index: FullTextIndex, documents: list[Document], queries: list[dict[str, Any]]) -> None:
    for query in queries:
        if "error" in query:
            with pytest.raises(TooManyTermsError, match="at most 1024"):
                index.search(query["query"].lower())
            continue
        hits = index.search(query["query"].lower())
        assert [documents[hit.product].asin for hit in hits] == query["asins"], query["id"]
        assert [hit.score for hit in hits] == query["raw_scores"], query["id"]
        assert len(hits) == query["total"], query["id"]


def test_documents_are_analyzed_as_by_lucene(documents: list[Document]) -> None:
    for document, recorded in zip(documents, records("doc_tokens.jsonl.xz"), strict=True):
        assert document.asin == recorded["asin"]
        assert analyze(document.text) == recorded["tokens"], document.asin
        assert bm25.quantised(np.array([recorded["n_tokens"]])).tolist() == [recorded["norm_len"]]


def test_queries_are_analyzed_as_by_lucene(queries: list[dict[str, Any]]) -> None:
    for query in queries:
        assert analyze(query["query"].lower()) == query["tokens"], query["id"]


def test_rankings_and_scores_equal_the_recorded_ones_bit_for_bit(
    documents: list[Document], queries: list[dict[str, Any]], tmp_path: Path
) -> None:
    write_index(documents, tmp_path)
    assert_equal_to_recordings(FullTextIndex.open(tmp_path), documents, queries)


def test_columns_and_many_small_runs_change_no_ranking(
    documents: list[Document], queries: list[dict[str, Any]], tmp_path: Path
) -> None:
    write_index(
        documents, tmp_path, Sizes(run_tokens=9_000, merged_postings=2_000, column_documents=0, column_share=0.05)
    )
    assert_equal_to_recordings(FullTextIndex.open(tmp_path), documents, queries)
