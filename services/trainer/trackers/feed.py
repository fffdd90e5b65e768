"""Between training and a tracker: a thread and a queue, so that a tracker that is slow or away holds nothing up."""

import logging
import threading
from collections import deque
from collections.abc import Iterable

from services.trainer.metrics import Metrics
from services.trainer.trackers.tracker import Opener, TrackedJob, Tracker, TrackerError
from shared.scalars import scalars
from shared.schemas.job import JobState

log = logging.getLogger(__name__)

RETRY_S = 30.0
"""Between two tries to reach a tracker that failed."""

OPEN_DEADLINE_S = 120.0
CLOSE_DEADLINE_S = 30.0
"""How long the end of training waits for a tracker to take what is left."""


class Feed:
    """Gives one tracker every training step once, in order, and again what it could not take.

    A fault of the tracker is logged once, when it begins, and so is its end; it never reaches training.
    """

    def __init__(self, name: str, opener: Opener, job: TrackedJob, earlier: Iterable[Metrics]) -> None:
        """Opens the tracker in a thread. ``earlier`` training steps are those of the run's record: it may lack some.

        That a new job's can't be opened is for `wait_open` to say.
        """
        self._name, self._opener, self._job = name, opener, job
        self._waiting = deque(earlier)
        self._changed = threading.Condition()
        self._closing = False
        self._ended_as: JobState | None = None
        self._tracker: Tracker | None = None
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"tracker-{name}", daemon=True)
        self._thread.start()

    def wait_open(self, deadline_s: float = OPEN_DEADLINE_S) -> None:
        """Until the tracker took what there is. Raises `TrackerError` when it can't be opened or takes too long."""
        with self._changed:
            self._changed.wait_for(lambda: self._tracker is not None or self._fault is not None, deadline_s)
            if self._tracker is None:
                reason = self._fault or f"no answer within {deadline_s:g} s"
                raise TrackerError(f"tracking.{self._name}: {reason}; mend it, or set tracking.{self._name} = false")

    def write(self, metrics: Metrics) -> None:
        """Leave a training step for the tracker."""
        with self._changed:
            self._waiting.append(metrics)
            self._changed.notify_all()

    def close(self, state: JobState | None, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Give the tracker a last chance to take everything."""
        with self._changed:
            self._closing, self._ended_as = True, state
            self._changed.notify_all()
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            log.warning("%s did not finish within %g s: it lacks the last training steps", self._name, deadline_s)

    def _run(self) -> None:
        while True:
            closing = self._closing  # once that is set, nothing more is added to what waits
            try:
                self._catch_up()
                if closing and self._tracker is not None:
                    self._tracker.close(self._ended_as)
                self._works()
            except Exception as error:  # whatever a tracker's package raises: training goes on without it
                self._failed(error)
            if closing:
                break
            with self._changed:
                if self._fault is None:
                    self._changed.wait_for(lambda: bool(self._waiting) or self._closing)
                else:
                    self._changed.wait_for(lambda: self._closing, RETRY_S)
                if self._closing and self._tracker is None:
                    break
        if self._waiting:
            log.warning("%s lacks the last %d training steps; metrics.jsonl has them", self._name, len(self._waiting))

    def _catch_up(self) -> None:
        """Open the tracker if need be, and write what waits."""
        if self._tracker is None:
            tracker = self._opener(self._job)
            with self._changed:
                self._tracker, self._fault = tracker, None
                self._changed.notify_all()
        while self._waiting:
            metrics = self._waiting[0]
            step = int(str(metrics["step"]))
            if step >= self._tracker.next_step:
                self._tracker.write(step, scalars(metrics))
            self._waiting.popleft()

    def _works(self) -> None:
        if self._fault is not None:
            log.info("%s has everything again", self._name)
            self._fault = None

    def _failed(self, error: Exception) -> None:
        with self._changed:
            begins = self._fault is None
            self._fault = error
            self._changed.notify_all()
        if begins and (self._tracker is not None or self._job.next_step > 0):
            log.warning(
                "%s can't be written to; training goes on, and it gets what it lacks once it can: %s: %s",
                self._name,
                type(error).__name__,
                error,
            )
