"""Credit records as they are looked at: one after the other, often the same one, now and then while they are pruned."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from shared.credit_record import StoredGroup, StoredRecord, open_credit_record
from shared.prompting.tokenizer import PolicyTokenizer
from shared.run_layout import CHECKPOINT_PREFIX, RunFiles
from shared.trajectory import Group

RECORDS = 4
"""Records that are kept in memory, of a few megabytes each."""
GROUPS = 16
"""Groups that are kept unpacked."""
TOKENIZERS = 2


@dataclass(frozen=True, slots=True)
class _Version:
    """A file as it was: a step that is trained on anew, after a crash, has another record under the same name."""

    path: Path
    changed_ns: int
    size: int


class CreditStore:
    """Reads credit records, and remembers the last ones. May be used by several threads at once."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._record = lru_cache(RECORDS)(_open)
        self._group = lru_cache(GROUPS)(StoredGroup.unpack)
        self._tokenizer = lru_cache(TOKENIZERS)(PolicyTokenizer)

    def record(self, files: RunFiles, step: int) -> StoredRecord:
        """The record of a training step. Raises `FileNotFoundError` and `CreditRecordError`."""
        return self._record(_version(files.credit_record(step)))

    def group(self, stored: StoredGroup) -> Group:
        """A group of a record, unpacked. Raises `CreditRecordError`."""
        return self._group(stored)

    def tokenizer(self, model: Path, files: RunFiles) -> PolicyTokenizer | None:
        """The run's tokenizer: its model's, or a checkpoint's where that is gone; None where there is none."""
        checkpoints = sorted(files.checkpoint_folder.glob(f"{CHECKPOINT_PREFIX}*"), reverse=True)
        for folder in (model, *checkpoints):
            if (folder / "tokenizer.json").is_file():
                return self._tokenizer(folder)
        return None


def shown_steps(steps: Sequence[int]) -> str:
    """Training steps as a person writes them: ``0–41, 43``."""
    runs: list[tuple[int, int]] = []
    for step in steps:
        if runs and runs[-1][1] == step - 1:
            runs[-1] = (runs[-1][0], step)
        else:
            runs.append((step, step))
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def _version(file: Path) -> _Version:
    status = file.stat()
    return _Version(file, status.st_mtime_ns, status.st_size)


def _open(version: _Version) -> StoredRecord:
    return open_credit_record(version.path)
