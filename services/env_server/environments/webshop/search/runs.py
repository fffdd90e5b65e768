"""The first half of building an index: documents into sorted runs of postings on disk."""

from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.env_server.environments.webshop.search.analyzer import analyze
from services.env_server.environments.webshop.search.bm25 import quantised

DOCUMENT_BITS = 32
"""A posting's key is its term's number shifted left by this many bits, plus the document's place in the catalogue."""


@dataclass(frozen=True, slots=True)
class Run:
    """Postings on disk, sorted by key."""

    keys: Path
    """uint64."""
    frequencies: Path
    """uint32: how often the document has the term."""


class _Numbers(dict[str, int]):
    """Term → number, in order of first appearance."""

    def __missing__(self, term: str) -> int:
        self[term] = number = len(self)
        return number


@dataclass
class RunWriter:
    """Takes in documents one by one; holds at most ``run_tokens`` tokens, and one document, in memory."""

    folder: Path
    run_tokens: int
    numbers: _Numbers = field(default_factory=_Numbers)
    runs: list[Run] = field(default_factory=list)
    _tokens: "array[int]" = field(default_factory=lambda: array("I"))
    _lengths: "array[int]" = field(default_factory=lambda: array("I"))
    """Of all documents, in tokens."""
    _asins: list[bytes] = field(default_factory=list)
    _asin_parts: list[NDArray[np.bytes_]] = field(default_factory=list)
    _flushed_documents: int = 0
    _document_frequencies: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _pairs: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))

    def add(self, asin: str, text: str) -> None:
        """Take in one document."""
        before = len(self._tokens)
        self._tokens.extend(map(self.numbers.__getitem__, analyze(text)))
        self._lengths.append(len(self._tokens) - before)
        self._asins.append(asin.encode())
        if len(self._tokens) >= self.run_tokens:
            self.flush()

    def flush(self) -> None:
        """Write what is in memory to disk as a run."""
        if self._asins:
            self._asin_parts.append(np.array(self._asins))
            self._asins.clear()
        if not self._tokens:
            return
        lengths = self.lengths[self._flushed_documents :]
        documents = np.repeat(np.arange(self._flushed_documents, len(self._lengths), dtype=np.uint64), lengths)
        keys = np.frombuffer(self._tokens, np.uint32).astype(np.uint64) << np.uint64(DOCUMENT_BITS) | documents
        keys, frequencies = np.unique(keys, return_counts=True)
        self._count(keys, frequencies)
        run = Run(self.folder / f"keys-{len(self.runs)}.npy", self.folder / f"frequencies-{len(self.runs)}.npy")
        np.save(run.keys, keys)
        np.save(run.frequencies, frequencies.astype(np.uint32))
        self.runs.append(run)
        self._tokens = array("I")
        self._flushed_documents = len(self._lengths)

    def _count(self, keys: NDArray[np.uint64], frequencies: NDArray[np.int64]) -> None:
        counts = np.bincount((keys >> np.uint64(DOCUMENT_BITS)).astype(np.int64), minlength=len(self.numbers))
        counts[: len(self._document_frequencies)] += self._document_frequencies
        self._document_frequencies = counts
        lengths = quantised(self.lengths)[keys & np.uint64((1 << DOCUMENT_BITS) - 1)]
        self._pairs = np.union1d(self._pairs, pair_keys(frequencies, lengths))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[documents]: tokens of each document so far."""
        return np.array(self._lengths, dtype=np.int64)

    @property
    def asins(self) -> NDArray[np.bytes_]:
        """The asin of each flushed document, in UTF-8."""
        return np.concatenate(self._asin_parts)

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        """int64[terms]: in how many of the flushed documents each term is."""
        return self._document_frequencies

    @property
    def pairs(self) -> NDArray[np.uint64]:
        """All different pairs (see `pair_keys`) among the flushed postings, sorted."""
        return self._pairs


def pair_keys(frequencies: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """What of a posting decides its divisor, in one number each: term frequency and quantised document length."""
    return frequencies.astype(np.uint64) << np.uint64(32) | lengths.astype(np.uint64)


def pair_parts(pairs: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Term frequencies and quantised lengths: the inverse of `pair_keys`."""
    return (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)
