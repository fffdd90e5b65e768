"""Read-only memory maps: the pages belong to the file, so all processes of a machine share them."""

import mmap
from pathlib import Path
from typing import Literal, overload

import numpy as np
import numpy.typing as npt


def map_bytes(path: Path) -> memoryview:
    """The bytes of a file that is not empty."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


@overload
def map_numbers(path: Path, code: Literal["i", "Q"]) -> "memoryview[int]": ...


@overload
def map_numbers(path: Path, code: Literal["d"]) -> "memoryview[float]": ...


def map_numbers(path: Path, code: Literal["i", "Q", "d"]) -> "memoryview[int] | memoryview[float]":
    """The numbers that `write_numbers` wrote; indexing gives plain Python numbers.

    ``code`` as in the ``array`` module: ``i`` 32-bit integers, ``Q`` unsigned 64-bit, ``d`` float64, little-endian.
    """
    return map_bytes(path).cast(code)


def write_numbers(path: Path, numbers: npt.ArrayLike, code: Literal["i", "Q", "d"]) -> None:
    """Write numbers for `map_numbers`."""
    np.asarray(numbers, dtype=np.dtype(code).newbyteorder("<")).tofile(path)
