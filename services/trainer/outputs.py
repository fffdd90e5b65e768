"""Everything that the trainer does to the world outside it. With several processes, only rank 0 has one of these."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from transformers import PreTrainedModel

from services.trainer.checkpoints import CheckpointStore, TrainerState
from services.trainer.credit_log import CreditLog
from services.trainer.metrics import STEP_EVENT, Metrics
from services.trainer.model_card import ModelCard
from services.trainer.stopping import StopFlag
from services.trainer.trackers import MetricsFile, TrackedJob, Trackers
from services.trainer.weight_push import WeightPublisher
from shared.buffer import EventWriter, GroupReader, JobChannel
from shared.credit_record import CreditRecord
from shared.files import try_lock
from shared.recipe import Recipe
from shared.run_layout import RunFiles
from shared.schemas.job import JobState

log = logging.getLogger(__name__)

OTHER_TRAINER_DEADLINE_S = 60.0
"""How long another trainer in the same folder is waited for: one that was told to stop needs a moment."""

_LOCK_POLL_S = 0.2


class FolderInUseError(RuntimeError):
    """Another trainer works in the run folder."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a job's trainer finds and leaves things."""

    job: str
    run_dir: Path
    redis_url: str
    policy_urls: tuple[str, ...]
    weights_host: str = "127.0.0.1"
    """Address at which policy servers reach this process (``weights.transport = "http"``)."""

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return RunFiles(self.run_dir).checkpoint_folder

    @property
    def weights(self) -> Path:
        """Folder of the pushed weights and their pointer ``latest.json``."""
        return self.run_dir / "weights"


class Outputs:
    """Weights to the policy servers, checkpoints, metrics, events, the job's state, and releasing groups."""

    def __init__(self, place: RunPlace, recipe: Recipe, flag: StopFlag) -> None:
        """Connects to nothing yet; `begin` opens the logs. Waits while another trainer still works in the folder.

        Raises `FolderInUseError` when it does for long, and what ``flag`` raises.
        """
        place.run_dir.mkdir(parents=True, exist_ok=True)
        self._place = place
        self._recipe = recipe
        self._closing = ExitStack()
        self._closing.enter_context(_alone_in(place.run_dir, flag))
        self.checkpoints = CheckpointStore(
            place.checkpoints,
            tokenizer_from=recipe.model.path,
            keep=recipe.training.keep_checkpoints,
            card=ModelCard(place.job, recipe, RunFiles(place.run_dir).metrics).text,
        )
        self._credit = CreditLog(RunFiles(place.run_dir), recipe.tracking.credit_steps)
        self._channel = JobChannel(place.redis_url, place.job)
        self._closing.callback(self._channel.close)
        self._events = EventWriter(place.redis_url, place.job)
        self._closing.callback(self._events.close)
        self._publisher = self._closing.enter_context(
            WeightPublisher(
                place.weights,
                place.policy_urls,
                recipe.weights,
                place.weights_host,
                flag.check,
                self._channel.announce_weights,
            )
        )
        self._metrics: MetricsFile | None = None
        self._trackers: Trackers | None = None
        self._ended_as: JobState | None = None

    def __enter__(self) -> Self:
        """Return the outputs themselves."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close logs and connections."""
        self._closing.close()

    def begin(self, state: TrainerState) -> None:
        """Open the logs where ``state`` left off, and say that the job runs.

        Raises `TrackerError` where a job that begins has a tracker that can't be used.
        """
        place, version = self._place, state.version
        self._metrics = MetricsFile(RunFiles(place.run_dir).metrics, version, state.metrics)
        self._closing.callback(self._metrics.close)
        job = TrackedJob(place.job, place.run_dir, self._recipe, version)
        self._trackers = trackers = Trackers(job, self._metrics.earlier)
        self._closing.callback(lambda: trackers.close(self._ended_as))
        self._credit.begin(version)
        self._channel.set_state(JobState.RUNNING)
        self._events.emit("trainer-started", {"version": version, "steps": self._recipe.training.steps})

    def publish(self, model: PreTrainedModel, version: int) -> float:
        """Give every policy server the weights, then tell the orchestrator. Returns the seconds it took."""
        start = time.perf_counter()
        digest = self._publisher.publish(model, version)
        self._channel.set_policy_version(version)
        seconds = time.perf_counter() - start
        self._events.emit("weights", {"version": version, "digest": digest, "seconds": seconds})
        return seconds

    def checkpoint(
        self,
        model: PreTrainedModel,
        save_optimizer: Callable[[Path], None],
        state: TrainerState,
        reader: GroupReader,
    ) -> float:
        """Write a checkpoint, then release the groups that it covers. Returns the seconds it took."""
        start = time.perf_counter()
        written = self.checkpoints.save(model, save_optimizer, state)
        released = reader.release(state.version)
        seconds = time.perf_counter() - start
        log.info("checkpoint %s in %.1f s, %d groups released", written.name, seconds, released)
        self._events.emit("checkpoint", {"version": state.version, "path": str(written), "seconds": seconds})
        return seconds

    def keep_credit(self, record: CreditRecord) -> None:
        """Keep a training step's credit. It is there before the step's metrics are, which tell of it."""
        self._credit.write(record)

    def record(self, metrics: Metrics) -> None:
        """Send a training step's metrics everywhere, once `begin` has opened the logs."""
        assert self._metrics is not None and self._trackers is not None
        self._metrics.write(metrics)
        self._trackers.write(metrics)
        self._events.emit(STEP_EVENT, metrics)

    def end(self, state: JobState | None, reason: str) -> None:
        """Say how the trainer ended. None leaves the job as it is, to be resumed."""
        self._ended_as = state
        if state is not None:
            self._channel.set_state(state)
        self._events.emit("trainer-ended", {"state": state.value if state else "stopped", "reason": reason})

    @property
    def channel(self) -> JobChannel:
        """The job's channel, to see whether it was cancelled."""
        return self._channel


@contextmanager
def _alone_in(folder: Path, flag: StopFlag) -> Iterator[None]:
    """Hold the folder's lock. One that torchrun left behind when it was killed trains on: two would mix their steps."""
    give_up = time.monotonic() + OTHER_TRAINER_DEADLINE_S
    with (folder / "trainer.lock").open("a") as file:
        while not try_lock(file):
            flag.check()
            if time.monotonic() > give_up:
                raise FolderInUseError(f"another trainer works in {folder}: end it (fuser {file.name} tells which)")
            time.sleep(_LOCK_POLL_S)
        yield
