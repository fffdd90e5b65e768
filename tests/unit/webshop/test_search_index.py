"""Index folders: what is wrong with one is said, queries of any kind are answered."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.env_server.environments.webshop.search.build import Document, write_index
from services.env_server.environments.webshop.search.files import DESCRIPTION, INDEX_FILES, IndexFormatError
from services.env_server.environments.webshop.search.index import FullTextIndex
from services.env_server.environments.webshop.world import TooManyTermsError

DOCUMENTS = [Document("B2", "red shoe"), Document("B1", "blue shoe for men"), Document("B3", "小 ❤️")]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> FullTextIndex:
    folder = tmp_path_factory.mktemp("index")
    write_index(DOCUMENTS, folder)
    return FullTextIndex.open(folder)


def test_a_folder_holds_the_listed_files_and_nothing_else(tmp_path: Path) -> None:
    write_index(DOCUMENTS, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(INDEX_FILES)


def test_equal_documents_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_index(DOCUMENTS, tmp_path / name)
    for name in INDEX_FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_hits_name_places_in_the_catalogue(index: FullTextIndex) -> None:
    assert [hit.product for hit in index.search("shoes")] == [0, 1]
    assert [hit.product for hit in index.search("❤️")] == [2]
    assert index.search("hat") == []


def test_callers_may_change_the_list_that_they_get(index: FullTextIndex) -> None:
    index.search("shoes").clear()
    assert len(index.search("shoes")) == 2


def test_1024_different_words_are_accepted_and_no_more(index: FullTextIndex) -> None:
    words = [f"w{number}" for number in range(1023)]
    assert [hit.product for hit in index.search(" ".join([*words, "red", "red"]))] == [0]
    with pytest.raises(TooManyTermsError, match="1025 different terms; at most 1024"):
        index.search(" ".join([*words, "red", "blue"]))


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_any_text_can_be_searched_for(index: FullTextIndex, query: str) -> None:
    assert all(0 <= hit.product < len(index) and hit.score > 0 for hit in index.search(query))


def test_a_shared_asin_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="asin 'B1' is the name of more than one product"):
        write_index([Document("B1", "a"), Document("B2", "b"), Document("B1", "c")], tmp_path)
    with pytest.raises(IndexFormatError, match="holds no search index"):
        FullTextIndex.open(tmp_path)


def test_no_document_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one document"):
        write_index([], tmp_path)


def test_documents_without_any_word_make_an_index_that_finds_nothing(tmp_path: Path) -> None:
    write_index([Document("A", ""), Document("B", "the")], tmp_path)
    assert FullTextIndex.open(tmp_path).search("the red shoe") == []


def test_a_failed_build_leaves_no_readable_index(tmp_path: Path) -> None:
    write_index(DOCUMENTS, tmp_path)

    def broken() -> Iterator[Document]:
        yield DOCUMENTS[0]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_index(broken(), tmp_path)
    with pytest.raises(IndexFormatError, match="holds no search index"):
        FullTextIndex.open(tmp_path)


def test_an_index_of_another_format_is_refused(tmp_path: Path) -> None:
    write_index(DOCUMENTS, tmp_path)
    path = tmp_path / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 0}))
    with pytest.raises(IndexFormatError, match="format 0, this version reads 1"):
        FullTextIndex.open(tmp_path)
