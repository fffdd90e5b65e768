"""Which documents score best, exactly, without scoring them all.

Terms in few documents are added up over their postings. A term in a large part of the documents (color, size, black)
has a *column*, its impact in every document, of which few entries are read: most documents cannot reach the scores of
the best even if such terms added the most that they can. (MaxScore, with columns in place of skip lists: H. Turtle and
J. Flood, "Query evaluation: strategies and optimizations", 1995.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Floats = NDArray[np.float32]
Sums = NDArray[np.float64]

_FOLD = 64
"""So many documents are one group where a bound is enough."""
_BLOCK = 1 << 15
"""Documents of a column scored at once: what is in between stays in the processor's cache."""
_ROUNDING = 1 - 2.0**-22
"""A sum that is this close below another may be equal to it as float32."""
_MAX_LEADERS = 4096
_FEW = 4096
_BATCH = 1 << 16
"""Postings gone through at once: 2 MB, which the allocator keeps; larger arrays are fresh pages in every search."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term is."""

    documents: Integers
    impacts: Integers
    top_divisor: np.float32
    """Of its highest impact."""
    weight: np.float32
    """Inverse document frequency."""
    column: Integers | None
    """The impacts in all documents, of common terms."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """A term of the query that some document has."""

    postings: Postings
    weight: np.float32


@dataclass(frozen=True, slots=True)
class _Column:
    """A common term of the query."""

    impacts: Integers
    gains: Floats
    """What it adds to a score, by impact."""
    most: float
    """The most that it adds."""


def best(terms: Sequence[QueryTerm], divisors: Floats, documents: int, limit: int) -> tuple[Integers, Floats]:
    """The ``limit`` best of all documents with at least one term, and their scores; of equal ones the lower numbers."""
    sums = _sums([term for term in terms if term.postings.column is None], divisors, documents)
    columns = [
        _Column(
            column,
            gains=term.weight - term.weight / divisors,
            most=float(term.weight - term.weight / term.postings.top_divisor),
        )
        for term in terms
        if (column := term.postings.column) is not None
    ]
    if columns:
        candidates, sums = _with_columns(sums, columns, limit)
    else:
        candidates, sums = _not_below(sums, _floor(sums, limit))
    return _first(candidates, sums.astype(np.float32), limit)


def _first(documents: Integers, scores: Floats, limit: int) -> tuple[Integers, Floats]:
    """The best of some documents, which come in rising order, and their scores."""
    if len(scores) > limit:
        last = np.partition(scores, -limit)[-limit]
        above = np.flatnonzero(scores > last)
        level = np.flatnonzero(scores == last)[: limit - len(above)]
        kept = np.sort(np.concatenate([above, level]))
        documents, scores = documents[kept], scores[kept]
    order = np.argsort(-scores, kind="stable")
    return documents[order], scores[order]


def _not_below(sums: Sums, floor: float) -> tuple[Integers, Sums]:
    """Documents that have a score which may be as high as ``floor``, and the scores."""
    documents = np.flatnonzero(sums >= floor * _ROUNDING if floor > 0 else sums)
    return documents, sums[documents]


def _sums(terms: Sequence[QueryTerm], divisors: Floats, documents: int) -> Sums:
    """Scores of all documents by terms whose postings are gone through."""
    sums: Sums | None = None
    for batch in _batches(terms):
        sizes = [len(term.postings.documents) for term in batch]
        weights = np.repeat(np.array([term.weight for term in batch]), sizes)
        gains = weights - weights / divisors[np.concatenate([term.postings.impacts for term in batch])]
        where = np.concatenate([term.postings.documents for term in batch])
        if sums is None:
            sums = cast(Sums, np.bincount(where, gains, documents))  # with weights, sums in place of counts
        else:
            np.add.at(sums, where, gains.astype(np.float64))
    return np.zeros(documents) if sums is None else sums


def _batches(terms: Sequence[QueryTerm]) -> Iterator[Sequence[QueryTerm]]:
    """Terms with so few postings together that what is in between takes little memory."""
    begin = postings = 0
    for place, term in enumerate(terms):
        postings += len(term.postings.documents)
        if postings > _BATCH and place > begin:
            yield terms[begin:place]
            begin, postings = place, len(term.postings.documents)
    if terms:
        yield terms[begin:]


def _with_columns(sums: Sums, columns: Sequence[_Column], limit: int) -> tuple[Integers, Sums]:
    """Documents among which are the best, in rising order, and their scores, from all scores by the rare terms."""
    columns = sorted(columns, key=lambda column: -column.most)
    missing = np.cumsum([0.0, *(column.most for column in reversed(columns))])[::-1]  # by how many columns are added
    floor = _floor_of_leaders(sums, columns, limit)
    added = 0
    while added < len(columns) and missing[added] >= floor * _ROUNDING:  # any document may still be among the best
        _add_everywhere(sums, columns[added])
        added += 1
        floor = max(floor, _floor(sums, limit))
    candidates, sums = _not_below(sums, floor * _ROUNDING - missing[added])
    for place in range(added, len(columns)):
        sums += columns[place].gains.take(columns[place].impacts[candidates])
        floor = max(floor, _at_rank(sums, limit))
        kept, sums = _not_below(sums, floor * _ROUNDING - missing[place + 1])
        candidates = candidates[kept]
    return candidates, sums


def _add_everywhere(sums: Sums, column: _Column) -> None:
    for begin in range(0, len(sums), _BLOCK):
        sums[begin : begin + _BLOCK] += column.gains.take(column.impacts[begin : begin + _BLOCK])


def _at_rank(sums: Sums, rank: int) -> float:
    """The score at a rank (from 1), 0 where there are fewer."""
    if len(sums) < rank:
        return 0.0
    # Few are sorted faster than partitioned, which is slow on the many zeros.
    ordered = np.sort(sums) if len(sums) <= _FEW else np.partition(sums, -rank)
    return float(ordered[-rank])


def _floor(sums: Sums, rank: int) -> float:
    """At most the score at a rank, and not much less: the same of the best of each group of documents."""
    if len(sums) < 4 * _FOLD * rank:
        return _at_rank(sums, rank)
    return _at_rank(sums[: len(sums) // _FOLD * _FOLD].reshape(_FOLD, -1).max(axis=0), rank)


def _floor_of_leaders(sums: Sums, columns: Sequence[_Column], rank: int) -> float:
    """As `_floor`, of complete scores: those of the documents that lead by their rare terms."""
    floor = _floor(sums, rank)
    if floor <= 0:
        return 0.0
    leaders = np.flatnonzero(sums >= floor)[:_MAX_LEADERS]
    complete = sums[leaders]
    for column in columns:
        complete += column.gains.take(column.impacts[leaders])
    return _at_rank(complete, rank)
