"""All trackers of a job."""

from collections.abc import Sequence

from services.trainer.metrics import Metrics
from services.trainer.trackers.feed import Feed
from services.trainer.trackers.mlflow_runs import MlflowRuns
from services.trainer.trackers.tensorboard import TensorBoard
from services.trainer.trackers.tracker import Opener, TrackedJob, TrackerError
from services.trainer.trackers.weights_and_biases import WeightsAndBiases
from shared.recipe import TrackingSettings
from shared.schemas.job import JobState
from shared.tracking_checks import tracking_faults


class Trackers:
    """The trackers that a job's recipe asks for.

    A job that begins does not begin with one that can't be used; later none of them ends training.
    """

    def __init__(self, job: TrackedJob, earlier: Sequence[Metrics]) -> None:
        """Open them; ``earlier`` training steps are the record's. Raises `TrackerError`."""
        self._feeds = [Feed(name, opener, job, earlier) for name, opener in _asked_for(job.recipe.tracking).items()]
        if job.next_step > 0:
            return
        try:
            for feed in self._feeds:
                feed.wait_open()
        except TrackerError:
            self.close(JobState.FAILED)
            raise

    def write(self, metrics: Metrics) -> None:
        """Leave a training step for every tracker."""
        for feed in self._feeds:
            feed.write(metrics)

    def close(self, state: JobState | None) -> None:
        """Have them finish; None where the job goes on later."""
        for feed in self._feeds:
            feed.close(state)


def check_trackers(tracking: TrackingSettings) -> None:
    """Raise `TrackerError` for what no later moment will mend, such as a package that is missing."""
    if faults := list(tracking_faults(tracking)):
        raise TrackerError("; ".join(map(str, faults)))


def _asked_for(tracking: TrackingSettings) -> dict[str, Opener]:
    """Name of the recipe's key → how the tracker is opened."""
    openers: dict[str, tuple[bool, Opener]] = {
        "tensorboard": (tracking.tensorboard, TensorBoard),
        "wandb": (tracking.wandb, WeightsAndBiases),
        "mlflow": (tracking.mlflow, MlflowRuns),
    }
    return {name: opener for name, (asked, opener) in openers.items() if asked}
