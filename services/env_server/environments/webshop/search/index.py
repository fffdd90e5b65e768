"""Full-text search, equal to the original's Lucene index in every id, order and score.

No library is exact enough to stand in. bm25s and rank_bm25 know neither quantised document lengths nor float32 scores
nor the order of equal scores, and keep their matrices in private memory; tantivy (BM25 like Lucene's) fixes k1 and b,
quantises lengths otherwise, has another English stemmer and orders equal scores by document.
"""

from bisect import bisect_left
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np

from services.env_server.environments.webshop.search import bm25, files
from services.env_server.environments.webshop.search.analyzer import analyze
from services.env_server.environments.webshop.search.ranking import Postings, QueryTerm, best
from services.env_server.environments.webshop.world import Hit, TooManyTermsError

MAX_TERMS = 1024
"""Different terms that Lucene accepts in a query."""

REMEMBERED_QUERIES = 1024
"""Their hits are kept: a page of results, the next one and the way back from an item all search for the same."""
_REMEMBERED_TERMS = 1 << 15


class FullTextIndex:
    """An index folder, opened. Immutable; all processes that open it share its memory."""

    def __init__(self, folder: Path, remembered_queries: int = REMEMBERED_QUERIES) -> None:
        self.description = files.Description.read(folder)
        self._dictionary = _Dictionary(folder)
        self._posting_ends = files.open_array(folder / files.POSTING_ENDS)
        self._documents = files.open_array(folder / files.POSTING_DOCUMENTS)
        self._impacts = files.open_array(folder / files.POSTING_IMPACTS)
        self._top_impacts = files.open_array(folder / files.TOP_IMPACTS)
        self._divisors = files.open_array(folder / files.DIVISORS)
        self._columns = files.open_array(folder / files.COLUMNS)
        self._column_of = {int(term): place for place, term in enumerate(files.open_array(folder / files.COLUMN_TERMS))}
        self._order = files.open_array(folder / files.ORDER)
        self._postings = lru_cache(_REMEMBERED_TERMS)(self._find_postings)
        self._hits = lru_cache(remembered_queries)(self._find_hits)

    @classmethod
    def open(cls, folder: Path) -> "FullTextIndex":
        """Map the files of a folder. Raises `files.IndexFormatError` where it holds no index of this version."""
        return cls(folder)

    def __len__(self) -> int:
        """Number of documents."""
        return self.description.documents

    def search(self, query: str, limit: int = 50) -> list[Hit]:
        """The best hits: score descending, then asin ascending. Raises `TooManyTermsError`."""
        return list(self._hits(query, limit))

    def _find_hits(self, query: str, limit: int) -> tuple[Hit, ...]:
        counts = Counter(analyze(query))
        if len(counts) > MAX_TERMS:
            raise TooManyTermsError(f"the query has {len(counts)} different terms; at most {MAX_TERMS} are allowed")
        terms = [
            QueryTerm(postings, np.float32(count) * postings.weight)
            for term, count in counts.items()
            if (postings := self._postings(term)) is not None
        ]
        if not terms:
            return ()
        documents, scores = best(terms, self._divisors, len(self), limit)
        return tuple(map(Hit, self._order[documents].tolist(), scores.tolist()))

    def _find_postings(self, term: str) -> Postings | None:
        number = self._dictionary.number(term)
        if number is None:
            return None
        place = slice(int(self._posting_ends[number]), int(self._posting_ends[number + 1]))
        column = self._column_of.get(number)
        return Postings(
            documents=self._documents[place],
            impacts=self._impacts[place],
            top_divisor=self._divisors[self._top_impacts[number]],
            weight=bm25.inverse_document_frequency(self.description.documents_with_terms, place.stop - place.start),
            column=None if column is None else self._columns[column],
        )


class _Dictionary:
    """Terms in sorted order, looked up by bisection."""

    def __init__(self, folder: Path) -> None:
        self._text = files.open_array(folder / files.TERM_TEXT).data
        self._ends = files.open_array(folder / files.TERM_ENDS).data
        self._numbers = files.open_array(folder / files.TERM_NUMBERS).data

    def number(self, term: str) -> int | None:
        """The number of a term, None where no document has it."""
        wanted = term.encode()
        place = bisect_left(range(len(self._numbers)), wanted, key=self._at)
        if place < len(self._numbers) and self._at(place) == wanted:
            return int(self._numbers[place])
        return None

    def _at(self, place: int) -> bytes:
        return bytes(self._text[self._ends[place] : self._ends[place + 1]])
