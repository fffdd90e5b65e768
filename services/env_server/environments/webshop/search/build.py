"""Writing a search index from a stream of documents, in memory that does not grow with their texts.

Tokens are gathered, sorted by term and document, and put on disk as runs (`runs`); at the end the runs are merged, a
range of terms at a time. What stays in memory is the vocabulary, and some 60 bytes a document.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from services.env_server.environments.webshop.search import bm25, files
from services.env_server.environments.webshop.search.runs import DOCUMENT_BITS, RunWriter, pair_keys, pair_parts


@dataclass(frozen=True, slots=True)
class Document:
    """What the index knows of a product."""

    asin: str
    """Unique; decides the order of equal scores."""
    text: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """How an index is built; the defaults are measured ones."""

    run_tokens: int = 1 << 22
    """Sorted at once: 150 MB."""
    merged_postings: int = 1 << 21
    """Merged at once, unless a single term has more."""
    column_documents: int = 1 << 15
    """Indexes of fewer documents get no columns: adding up all postings is faster there."""
    column_share: float = 1 / 12
    """Terms in more than this share of the documents get a column."""


DEFAULT_SIZES = Sizes()


def write_index(
    documents: Iterable[Document], folder: Path, sizes: Sizes = DEFAULT_SIZES, progress: bool = False
) -> files.Description:
    """Write the files of `files.INDEX_FILES` to ``folder`` (created where missing), for documents in catalogue order.

    Raises ValueError where two documents share an asin, and where there is none at all. After an error the folder holds
    no readable index.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / files.DESCRIPTION).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=".runs-", dir=folder) as runs:
        collected = RunWriter(Path(runs), sizes.run_tokens)
        for document in documents:
            collected.add(document.asin, document.text)
        collected.flush()
        description = _describe(collected)
        _write_terms(collected, folder)
        _Merge(collected, folder, sizes, np.float32(description.average_length)).write(progress)
    description.write(folder)
    return description


def _describe(collected: RunWriter) -> files.Description:
    lengths = collected.lengths
    if not len(lengths):
        raise ValueError("a search index needs at least one document; the stream of products was empty")
    with_terms = int(np.count_nonzero(lengths))
    return files.Description(
        documents=len(lengths),
        documents_with_terms=with_terms,
        terms=len(collected.numbers),
        postings=int(collected.document_frequencies.sum()),
        average_length=float(np.float32(lengths.sum() / max(with_terms, 1))),
    )


def _write_terms(collected: RunWriter, folder: Path) -> None:
    order = sorted((term.encode(), number) for term, number in collected.numbers.items())
    np.save(folder / files.TERM_TEXT, np.frombuffer(b"".join(term for term, _ in order), np.uint8))
    np.save(folder / files.TERM_ENDS, _ends(np.array([len(term) for term, _ in order], np.int64)))
    np.save(folder / files.TERM_NUMBERS, np.array([number for _, number in order], np.uint32))


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where consecutive parts of these sizes begin and end: one number more than there are parts."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)


def _order_of_asins(asins: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Documents in the order of their asins."""
    order = np.argsort(asins, kind="stable")
    ordered = asins[order]
    if len(twins := np.flatnonzero(ordered[1:] == ordered[:-1])):
        asin = bytes(ordered[twins[0]]).decode()
        raise ValueError(f"asin {asin!r} is the name of more than one product; every product needs its own")
    return order


class _Merge:
    """The second half of building: runs into the posting files."""

    def __init__(self, collected: RunWriter, folder: Path, sizes: Sizes, average_length: np.float32) -> None:
        self._folder = folder
        self._sizes = sizes
        self._frequencies = collected.document_frequencies
        self._runs = collected.runs
        self._lengths = bm25.quantised(collected.lengths)
        self._order = _order_of_asins(collected.asins)
        self._places = np.empty(len(self._order), np.int64)
        self._places[self._order] = np.arange(len(self._order))
        self._pairs = collected.pairs
        pair_divisors = bm25.divisors(*pair_parts(self._pairs), average_length)
        self._divisors = np.unique(np.concatenate([np.ones(1, np.float32), pair_divisors]))
        self._impact_type = np.dtype(np.uint16 if len(self._divisors) <= 1 << 16 else np.uint32)
        self._pair_impacts = np.searchsorted(self._divisors, pair_divisors).astype(self._impact_type)

    def write(self, progress: bool) -> None:
        """Write every file but the description and the dictionary."""
        postings = int(self._frequencies.sum())
        column_terms = self._column_terms()
        np.save(self._folder / files.ORDER, self._order.astype(np.int32))
        np.save(self._folder / files.DIVISORS, self._divisors)
        np.save(self._folder / files.POSTING_ENDS, _ends(self._frequencies))
        np.save(self._folder / files.COLUMN_TERMS, column_terms.astype(np.uint32))
        with (
            self._written(files.POSTING_DOCUMENTS, np.dtype(np.int32), (postings,)) as posting_documents,
            self._written(files.POSTING_IMPACTS, self._impact_type, (postings,)) as posting_impacts,
            self._written(files.COLUMNS, self._impact_type, (len(column_terms), len(self._order))) as columns,
            tqdm(total=postings, desc="merging postings", unit="", unit_scale=True, disable=not progress) as bar,
        ):
            top_impacts = np.zeros(len(self._frequencies), self._impact_type)
            for first, last in self._ranges():
                merged_documents, impacts = self._merged(first, last)
                posting_documents.add(merged_documents)
                posting_impacts.add(impacts)
                starts = np.cumsum(self._frequencies[first:last]) - self._frequencies[first:last]
                top_impacts[first:last] = np.maximum.reduceat(impacts, starts)
                for term in column_terms[(column_terms >= first) & (column_terms < last)]:
                    place = slice(starts[term - first], starts[term - first] + self._frequencies[term])
                    column = np.zeros(len(self._order), self._impact_type)
                    column[merged_documents[place]] = impacts[place]
                    columns.add(column)
                bar.update(len(impacts))
        np.save(self._folder / files.TOP_IMPACTS, top_impacts)

    def _written(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> "closing[files.ArrayWriter]":
        return closing(files.ArrayWriter(self._folder / name, dtype, shape))

    def _column_terms(self) -> NDArray[np.int64]:
        documents = len(self._order)
        if documents < self._sizes.column_documents:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self._frequencies > documents * self._sizes.column_share)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges of term numbers with about as many postings as may be merged at once."""
        total = np.cumsum(self._frequencies)
        first = 0
        while first < len(total):
            done = total[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(total, done + self._sizes.merged_postings, side="right")))
            yield first, last
            first = last

    def _merged(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
        """Documents (by asin) and impacts of the terms of a range, by term and document."""
        bounds = np.array([first, last], np.uint64) << np.uint64(DOCUMENT_BITS)
        key_parts, frequency_parts = [], []
        for run in self._runs:  # opened anew for every range, so that what was read does not stay in memory
            keys = np.load(run.keys, mmap_mode="r")
            begin, end = np.searchsorted(keys, bounds)
            key_parts.append(np.array(keys[begin:end]))
            frequency_parts.append(np.array(np.load(run.frequencies, mmap_mode="r")[begin:end]))
        keys = np.concatenate(key_parts)
        in_catalogue = (keys & np.uint64((1 << DOCUMENT_BITS) - 1)).astype(np.int64)
        pairs = pair_keys(np.concatenate(frequency_parts), self._lengths[in_catalogue])
        impacts = self._pair_impacts[np.searchsorted(self._pairs, pairs)]
        documents = self._places[in_catalogue]
        order = np.argsort((keys >> np.uint64(DOCUMENT_BITS) << np.uint64(DOCUMENT_BITS)) | documents.astype(np.uint64))
        return documents[order], impacts[order]
