"""Many small records in one file, each compressed by itself, with a table of where they start.

Records of a kind repeat each other's words, so they share a zstd dictionary trained on the first of them: two thirds of
the size of compressing each alone, and a record is still read without its neighbours.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import zstandard

from services.env_server.environments.webshop.catalogue.mapping import map_bytes, map_numbers, write_numbers

DICTIONARY_BYTES = 96 * 1024
SAMPLES = 4_000
"""Records that the dictionary is trained on; they are kept in memory until then."""
LEVEL = 3
SUFFIXES = (".records", ".offsets", ".dictionary")
"""Of the files that hold records."""


class RecordWriter:
    """Writes ``<name>.records``, ``<name>.offsets`` and ``<name>.dictionary``; a context manager."""

    def __init__(self, folder: Path, name: str) -> None:
        """``folder`` exists."""
        self._paths = _paths(folder, name)
        self._file = self._paths[0].open("wb")
        self._offsets = array("Q", [0])
        self._first: list[bytes | bytearray | memoryview] = []
        self._compressor: zstandard.ZstdCompressor | None = None

    def __len__(self) -> int:
        """Records so far."""
        return len(self._offsets) - 1 + len(self._first)

    def append(self, record: bytes) -> None:
        """Add one record."""
        if self._compressor is not None:
            self._write(self._compressor, record)
            return
        self._first.append(record)
        if len(self._first) == SAMPLES:
            self._train()

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Complete the files, unless something went wrong."""
        try:
            if kind is None:
                if self._compressor is None:
                    self._train()
                write_numbers(self._paths[1], self._offsets, "Q")
        finally:
            self._file.close()

    def _train(self) -> None:
        try:
            dictionary = zstandard.train_dictionary(DICTIONARY_BYTES, self._first)
        except zstandard.ZstdError:  # too few records to learn anything from
            dictionary = zstandard.ZstdCompressionDict(b"")
        self._paths[2].write_bytes(dictionary.as_bytes())
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary)
        for record in self._first:
            self._write(self._compressor, record)
        self._first = []

    def _write(self, compressor: zstandard.ZstdCompressor, record: bytes | bytearray | memoryview) -> None:
        packed = compressor.compress(record)
        self._file.write(packed)
        self._offsets.append(self._offsets[-1] + len(packed))


class RecordFile:
    """What `RecordWriter` wrote, memory-mapped. Not for several threads at once."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the files of ``name`` in ``folder``. Raises OSError where they are missing."""
        records, offsets, dictionary = _paths(folder, name)
        self._offsets = map_numbers(offsets, "Q")
        self._records = map_bytes(records) if len(self) else memoryview(b"")
        self._decompressor = zstandard.ZstdDecompressor(
            dict_data=zstandard.ZstdCompressionDict(dictionary.read_bytes())
        )

    def __len__(self) -> int:
        """Number of records."""
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        """A record by its place. Raises IndexError beyond the ends, `zstandard.ZstdError` where it is damaged."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._decompressor.decompress(self._records[self._offsets[number] : self._offsets[number + 1]])

    def __iter__(self) -> Iterator[bytes]:
        """All records in order."""
        return (self[number] for number in range(len(self)))


def _paths(folder: Path, name: str) -> tuple[Path, Path, Path]:
    records, offsets, dictionary = (folder / f"{name}{suffix}" for suffix in SUFFIXES)
    return records, offsets, dictionary
