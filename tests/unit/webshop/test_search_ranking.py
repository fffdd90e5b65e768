"""The index against a scorer that goes through every document, term by term, one float32 operation at a time."""

import math
import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.env_server.environments.webshop.search.analyzer import analyze
from services.env_server.environments.webshop.search.build import Document, Sizes, write_index
from services.env_server.environments.webshop.search.index import FullTextIndex
from services.env_server.environments.webshop.world import Hit

LETTERS = "bcdghjklmnpqrtvwxz"
VOCABULARY = [f"{first}{second}" for first in LETTERS for second in LETTERS]
"""Words that are terms as they are."""
SMALL = Sizes(run_tokens=200, merged_postings=100, column_documents=0, column_share=0.1)


def kept_length(length: int) -> int:
    if length < 24:
        return length
    dropped = max((length - 24).bit_length() - 4, 0)
    return ((length - 24) >> dropped << dropped) + 24


def every_score(documents: list[Document], query: str) -> list[tuple[float, str, int]]:
    """(minus the score, asin, place) of each document with a term of the query, the best first."""
    texts = [Counter(analyze(document.text)) for document in documents]
    lengths = [text.total() for text in texts]
    count = sum(length > 0 for length in lengths)
    average = np.float32(sum(lengths) / count)
    one, k1, b = np.float32(1), np.float32(0.9), np.float32(0.4)
    wanted = Counter(analyze(query))
    frequencies = {term: sum(term in text for text in texts) for term in wanted}
    scored = []
    for place, (document, text, length) in enumerate(zip(documents, texts, lengths, strict=True)):
        inverse = one / (k1 * ((one - b) + b * np.float32(kept_length(length)) / average))
        total, matches = 0.0, False
        for term, times in wanted.items():
            if term not in text:
                continue
            matches = True
            inside = (count - frequencies[term] + 0.5) / (frequencies[term] + 0.5)
            weight = np.float32(times) * np.float32(math.log(1 + inside))
            total += float(weight - weight / (one + np.float32(text[term]) * inverse))
        if matches:
            scored.append((-float(np.float32(total)), document.asin, place))
    return sorted(scored)


def random_documents(rng: random.Random, count: int, words: int, steep: float) -> list[Document]:
    """Documents of words whose frequencies fall with their rank; asins in no order; many equal documents."""
    vocabulary = VOCABULARY[:words]
    weights = [1 / (rank + 1) ** steep for rank in range(words)]
    asins = rng.sample(range(10**6), count)
    texts = [" ".join(rng.choices(vocabulary, weights, k=rng.choice([0, 1, 2, 5, 12, 40]))) for _ in range(count)]
    return [
        Document(f"B{asin:06d}", texts[place] if rng.random() < 0.7 else rng.choice(texts))
        for place, asin in enumerate(asins)
    ]


def assert_exact(documents: list[Document], queries: list[str], limits: list[int], sizes: Sizes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_index(documents, Path(folder), sizes)
        index = FullTextIndex.open(Path(folder))
        for query in queries:
            expected = [Hit(place, -score) for score, _, place in every_score(documents, query)]
            for limit in limits:
                assert index.search(query, limit) == expected[:limit], query


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 300),
    words=st.integers(1, 150),
    steep=st.sampled_from([0.0, 0.7, 1.5]),
    share=st.sampled_from([0.0, 0.05, 0.3, 2.0]),
)
def test_pruned_search_equals_scoring_every_document(
    seed: int, count: int, words: int, steep: float, share: float
) -> None:
    rng = random.Random(seed)
    documents = [*random_documents(rng, count, words, steep), Document("A", VOCABULARY[0])]
    queries = [" ".join(rng.choices(VOCABULARY[: words + 2], k=rng.choice([1, 2, 6, 20]))) for _ in range(4)]
    sizes = Sizes(run_tokens=200, merged_postings=100, column_documents=0, column_share=share)
    assert_exact(documents, queries, [1, 7, 50], sizes)


@pytest.mark.parametrize("steep", [0.5, 1.2])
def test_bounds_over_groups_of_documents_keep_the_best(steep: float) -> None:
    rng = random.Random(5)
    documents = random_documents(rng, 3_000, 200, steep)
    queries = [" ".join(rng.choices(VOCABULARY[:200], k=rng.choice([2, 8, 20]))) for _ in range(15)]
    assert_exact(documents, queries, [1, 5, 10], SMALL)


def test_equal_scores_are_cut_off_by_asin() -> None:
    documents = [Document(f"B{number:03d}", "bb cc" if number % 3 else "bb dd") for number in range(199, -1, -1)]
    for sizes in (SMALL, Sizes()):
        assert_exact(documents, ["bb", "bb cc", "dd"], [1, 50, 500], sizes)


def test_a_repeated_word_of_the_query_weighs_as_often() -> None:
    documents = [Document("A", "bb"), Document("B", "cc"), Document("C", "dd")]
    assert_exact(documents, ["bb cc cc cc", "cc bb bb"], [3], SMALL)


def test_documents_without_words_count_for_nothing_and_are_never_found() -> None:
    documents = [Document("A", ""), Document("B", "the and, of!"), Document("C", "bb cc"), Document("D", "bb")]
    assert_exact(documents, ["bb", "the", "", "cc"], [50], SMALL)
