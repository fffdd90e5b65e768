"""TensorBoard files in the run's folder."""

from collections.abc import Mapping

from torch.utils.tensorboard import SummaryWriter

from services.trainer.trackers.tracker import TrackedJob
from shared.schemas.job import JobState

FOLDER = "tensorboard"


class TensorBoard:
    """Every number is a scalar."""

    def __init__(self, job: TrackedJob) -> None:
        """Points at the job's next step and later, of a trainer that was killed, are purged."""
        self.next_step = job.next_step
        self._writer = SummaryWriter(str(job.folder / FOLDER), purge_step=job.next_step or None)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """One point each."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, state: JobState | None) -> None:
        """Close the files."""
        self._writer.close()
