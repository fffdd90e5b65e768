"""The files of an index folder: NumPy arrays that are mapped into memory, and ``index.json`` that describes them.

Documents are numbered in the order of their asins, so that equal scores are in order already; `ORDER` leads from these
numbers to the catalogue's. Terms are numbered as they first appeared. Every posting has an *impact*: the place of its
divisor (see `bm25`) among all divisors of the index in rising order; impact 0 is the divisor 1, which adds nothing.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.files import write_atomically

FORMAT = 1
"""Raised whenever files of the old form can no longer be read."""

DESCRIPTION = "index.json"
TERM_TEXT = "term_text.npy"
"""uint8: the terms in UTF-8, sorted, one after the other."""
TERM_ENDS = "term_ends.npy"
"""uint64[terms + 1]: where each of them begins and ends in that text."""
TERM_NUMBERS = "term_numbers.npy"
"""uint32[terms]: the number of each of them."""
POSTING_ENDS = "posting_ends.npy"
"""uint64[terms + 1]: by term number, where its postings begin and end."""
POSTING_DOCUMENTS = "posting_documents.npy"
"""int32[postings]: the documents of a term in rising order."""
POSTING_IMPACTS = "posting_impacts.npy"
"""uint16 or uint32[postings]."""
TOP_IMPACTS = "top_impacts.npy"
"""uint16 or uint32[terms]: the highest impact of each term's postings."""
DIVISORS = "divisors.npy"
"""float32[impacts]."""
COLUMN_TERMS = "column_terms.npy"
"""uint32[columns]: the numbers, rising, of the common terms that have a column."""
COLUMNS = "columns.npy"
"""uint16 or uint32[columns, documents]: the impact of the term in every document; 0 where it is not there."""
ORDER = "order.npy"
"""int32[documents]: place in the catalogue."""

INDEX_FILES = (
    DESCRIPTION,
    TERM_TEXT,
    TERM_ENDS,
    TERM_NUMBERS,
    POSTING_ENDS,
    POSTING_DOCUMENTS,
    POSTING_IMPACTS,
    TOP_IMPACTS,
    DIVISORS,
    COLUMN_TERMS,
    COLUMNS,
    ORDER,
)
"""Everything that a folder holds."""


class IndexFormatError(ValueError):
    """A folder that holds no index, or one that this version cannot read."""


@dataclass(frozen=True, slots=True)
class Description:
    """What ``index.json`` says."""

    documents: int
    documents_with_terms: int
    """The N of the scores: Lucene counts no document without terms."""
    terms: int
    postings: int
    average_length: float
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Written last: a folder without it holds no index."""
        write_atomically(folder / DESCRIPTION, json.dumps(asdict(self), indent=2).encode())

    @classmethod
    def read(cls, folder: Path) -> "Description":
        """Raises `IndexFormatError` saying what is wrong."""
        path = folder / DESCRIPTION
        if not path.exists():
            raise IndexFormatError(
                f"{folder} holds no search index: {DESCRIPTION} is missing; build the catalogue anew"
            )
        content = json.loads(path.read_bytes())
        if content.get("format") != FORMAT:
            raise IndexFormatError(
                f"{path} has format {content.get('format')!r}, this version reads {FORMAT}; build the catalogue anew"
            )
        return cls(**content)


class ArrayWriter:
    """A new array file that is written from front to back, in no more memory than what is added at once."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._file = path.open("wb")
        self._dtype = dtype
        npy: Any = np.lib.format  # has no type information
        npy.write_array_header_1_0(self._file, {"descr": dtype.str, "fortran_order": False, "shape": shape})

    def add(self, values: NDArray[Any]) -> None:
        """Append values in the array's (C) order."""
        self._file.write(values.astype(self._dtype, copy=False).data)

    def close(self) -> None:
        """No more will come."""
        self._file.close()


def open_array(path: Path) -> NDArray[Any]:
    """An array on disk, mapped read-only: shared by all processes, and no private memory of any."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        array = np.load(path)
    return array.view(np.ndarray)  # a plain array is sliced ten times faster than a memmap
