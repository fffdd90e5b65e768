"""Following the metrics of a run: ``metrics.jsonl`` as it grows."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from services.trainer.dashboard.downsample import Floats

Row = Mapping[str, JsonValue]
"""The metrics of one training step; docs/gagpo.md says what each name means."""

_NO_FILE = (0, 0)


class MetricsTable:
    """Rows by column; a column is made once, whoever asks for it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """``rows`` do not change any more."""
        self.rows = rows
        self._columns: dict[str, Floats] = {}

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def column(self, path: str) -> Floats:
        """The numbers at a path, NaN where there is none. Shape: [rows]."""
        if path not in self._columns:
            found = (number(row, path) for row in self.rows)
            self._columns[path] = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
        return self._columns[path]


class MetricsFile:
    """The rows so far; `update` reads what has come since."""

    def __init__(self, file: Path) -> None:
        """Reads nothing yet; the file need not be there."""
        self._file = file
        self._identity = _NO_FILE
        self._read = 0
        self._rows: list[Row] = []
        self._table = MetricsTable([])

    @property
    def rows(self) -> Sequence[Row]:
        """One for each training step, in order."""
        return self._rows

    @property
    def table(self) -> MetricsTable:
        """The rows as they are now; another one once there are more."""
        if self._table.rows is not self._rows:
            self._table = MetricsTable(self._rows)
        return self._table

    def update(self) -> bool:
        """Read new lines; whether anything changed. Blocks on the disk.

        A trainer that goes on from a checkpoint puts another file in this one's place, without the steps that it will
        repeat: then everything is read again.
        """
        try:
            with self._file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                changed = False
                if self._identity != (status.st_dev, status.st_ino) or status.st_size < self._read:
                    changed = bool(self._rows)
                    self._identity, self._read, self._rows = (status.st_dev, status.st_ino), 0, []
                if status.st_size == self._read:
                    return changed
                stream.seek(self._read)
                new = stream.read()
        except FileNotFoundError:
            changed = bool(self._rows)
            self._identity, self._read, self._rows = _NO_FILE, 0, []
            return changed
        whole = new[: new.rfind(b"\n") + 1]  # a line without its end is still being written
        self._read += len(whole)
        self._rows = self._rows + [
            json.loads(line) for line in whole.splitlines() if line
        ]  # with NaN, which JSON proper lacks
        return changed or bool(whole)


def number(row: Row, path: str) -> float | None:
    """The number at a path such as ``task_type_success/examine``; None where there is none, or it is not finite."""
    value: JsonValue | Row = row
    for name in path.split("/"):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def names_below(rows: Sequence[Row], path: str) -> list[str]:
    """Every name that a table such as ``task_type_success`` has in any row, in alphabetical order."""
    found: set[str] = set()
    for row in rows:
        table = row.get(path)
        if isinstance(table, Mapping):
            found.update(table)
    return sorted(found)
