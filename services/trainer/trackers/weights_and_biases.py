"""Runs on Weights & Biases. Login, server and ``WANDB_MODE=offline`` are that package's own settings."""

import importlib
import secrets
from collections.abc import Mapping

from services.trainer.trackers.tracker import TrackedJob
from shared.schemas.job import JobState

NAME = "wandb"

_EXIT_CODES = {JobState.COMPLETED: 0, JobState.CANCELLED: 0}
"""A run that ends with another code is shown as failed there; one that goes on later is not over."""


class WeightsAndBiases:
    """One run there for each run folder."""

    def __init__(self, job: TrackedJob) -> None:
        """Go on with the folder's run, or begin one. Raises `ImportError` without the package."""
        wandb = importlib.import_module(NAME)  # an extra
        identity = job.known_id(NAME) or secrets.token_hex(8)
        job.remember(NAME, identity)
        self._run = wandb.init(
            project=job.recipe.tracking.wandb_project,
            name=job.job,
            id=identity,
            resume="allow",
            dir=str(job.folder),
            config=job.recipe.model_dump(mode="json"),
        )
        # Offline nothing is known of what an earlier start wrote; the server, where it is sent later, drops old steps.
        self.next_step = max(self._run.starting_step, job.next_step if self._run.offline else 0)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """One row of the run's history."""
        self._run.log(dict(numbers), step=step)

    def close(self, state: JobState | None) -> None:
        """Finish the upload."""
        self._run.finish(exit_code=_EXIT_CODES.get(state, 1) if state is not None else 0)
