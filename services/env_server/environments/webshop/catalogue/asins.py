"""From asin to product number by bisection in a sorted file of fixed-width asins."""

from bisect import bisect_left
from pathlib import Path

import numpy as np

from services.env_server.environments.webshop.catalogue.mapping import map_bytes, map_numbers, write_numbers

WIDTH = 10
"""Bytes of an asin; shorter ones are padded with NUL."""


class AsinError(ValueError):
    """An asin that no product can have, or that two have."""


class AsinTableWriter:
    """Collects asins in product order: ten bytes each."""

    def __init__(self) -> None:
        """Start with none."""
        self._asins = bytearray()

    def append(self, asin: str) -> None:
        """Add the asin of the next product. Raises `AsinError` unless it is 1 to 10 upper-case ASCII characters."""
        if not asin or not asin.isascii() or len(asin) > WIDTH or "\0" in asin or asin != asin.upper():
            raise AsinError(f"asin {asin[:40]!r} is not 1 to {WIDTH} upper-case ASCII characters")
        self._asins += asin.encode().ljust(WIDTH, b"\0")

    def write(self, folder: Path) -> None:
        """Write ``asins.sorted`` and ``asins.numbers``. Raises `AsinError` that names an asin which occurs twice."""
        asins = np.frombuffer(bytes(self._asins), dtype=f"S{WIDTH}")
        order = np.argsort(asins, kind="stable")
        ordered = asins[order]
        if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
            raise AsinError(f"asin {ordered[twice[0]].decode()} occurs twice")
        ordered.tofile(folder / "asins.sorted")
        write_numbers(folder / "asins.numbers", order, "i")


class AsinTable:
    """What `AsinTableWriter` wrote, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        """Open the files in ``folder``. Raises OSError where they are missing."""
        self._asins = map_bytes(folder / "asins.sorted")
        self._numbers = map_numbers(folder / "asins.numbers", "i")

    def number_of(self, asin: str) -> int | None:
        """The number of the product with this asin, None where there is none."""
        wanted = asin.encode("utf-8", "replace").ljust(WIDTH, b"\0")
        asins = self._asins
        place = bisect_left(
            range(len(self._numbers)), wanted, key=lambda i: asins[i * WIDTH : (i + 1) * WIDTH].tobytes()
        )
        if place == len(self._numbers) or asins[place * WIDTH : (place + 1) * WIDTH] != wanted:
            return None
        number: int = self._numbers[place]
        return number
