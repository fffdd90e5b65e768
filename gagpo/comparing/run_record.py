"""``attempts.json`` in a run's folder: what it cost to make the run, and why it failed if it did."""

from pathlib import Path

from pydantic import BaseModel

from gagpo.training.run_folder import RunFolder
from shared.files import write_atomically


class RunRecord(BaseModel):
    """All attempts at a run together."""

    attempts: int = 0
    seconds: float = 0.0
    """Wall-clock seconds from the run's start to its summary, evaluations with them; without starting servers."""
    failure: str | None = None
    """Why the last attempt failed; null where it did not."""


def read_record(folder: RunFolder) -> RunRecord:
    """The record of a run; an empty one where none was written."""
    file = _file(folder)
    return RunRecord.model_validate_json(file.read_bytes()) if file.exists() else RunRecord()


def add_attempt(folder: RunFolder, seconds: float, failure: str | None) -> None:
    """Count one more attempt."""
    before = read_record(folder)
    record = RunRecord(attempts=before.attempts + 1, seconds=before.seconds + seconds, failure=failure)
    write_atomically(_file(folder), f"{record.model_dump_json(indent=2)}\n".encode())


def _file(folder: RunFolder) -> Path:
    return folder.path / "attempts.json"
