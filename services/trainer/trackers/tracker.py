"""What a tracker is: somewhere outside the run's own records that training steps are told to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shared.recipe import Recipe
from shared.schemas.job import JobState


class TrackerError(RuntimeError):
    """A tracker can't be used; the message says which, why, and what to do."""


class Tracker(Protocol):
    """One that is open. Its methods may raise anything and take long: a `Feed` stands between it and training."""

    next_step: int
    """The first training step that it has no numbers of: earlier ones are not written to it again."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take a training step's numbers, nested ones as ``name/key``."""

    def close(self, state: JobState | None) -> None:
        """Write out what is held back, and note how the job ended; None means that it goes on later."""


@dataclass(frozen=True, slots=True)
class TrackedJob:
    """The job that a tracker is told about."""

    job: str
    folder: Path
    """The run's folder."""
    recipe: Recipe
    next_step: int
    """The training step that comes next: 0 for a new job."""

    def known_id(self, tracker: str) -> str | None:
        """Under which id the tracker knows the run; None before `remember`."""
        file = self._id_file(tracker)
        return file.read_text().strip() if file.exists() else None

    def remember(self, tracker: str, identity: str) -> None:
        """Keep the id for the next start of this job, which goes on with the same run there."""
        file = self._id_file(tracker)
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{identity}\n")

    def _id_file(self, tracker: str) -> Path:
        return self.folder / "trackers" / f"{tracker}.id"


Opener = Callable[[TrackedJob], Tracker]
"""Opens a tracker where the job left off. Raises `TrackerError`, or whatever the tracker's package raises."""
