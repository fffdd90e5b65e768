"""Which products have a label: the tables behind searches by category and by query."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from services.env_server.environments.webshop.catalogue.mapping import map_numbers, write_numbers


class GroupTableWriter:
    """Collects product numbers by label: four bytes each."""

    def __init__(self) -> None:
        """Start with none."""
        self._numbers: dict[str, array[int]] = {}

    def append(self, label: str, number: int) -> None:
        """Add a product; numbers come in rising order."""
        self._numbers.setdefault(label, array("i")).append(number)

    def write(self, folder: Path, name: str) -> None:
        """Write ``<name>.labels`` (JSON: label → how many) and ``<name>.numbers`` (label after label)."""
        sizes = {label: len(numbers) for label, numbers in self._numbers.items()}
        (folder / f"{name}.labels").write_bytes(msgspec.json.encode(sizes))
        write_numbers(folder / f"{name}.numbers", np.concatenate([np.asarray(n) for n in self._numbers.values()]), "i")


class GroupTable:
    """What `GroupTableWriter` wrote, memory-mapped except for the labels."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the files of ``name`` in ``folder``. Raises OSError where they are missing."""
        sizes = msgspec.json.decode((folder / f"{name}.labels").read_bytes(), type=dict[str, int])
        numbers = map_numbers(folder / f"{name}.numbers", "i")
        self._groups: dict[str, memoryview] = {}
        start = 0
        for label, size in sizes.items():
            self._groups[label] = numbers[start : start + size]
            start += size

    def __getitem__(self, label: str) -> Sequence[int]:
        """The products with a label, in catalogue order; empty for an unknown one."""
        return self._groups.get(label, ())
