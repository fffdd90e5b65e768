"""Works off the queue: one job at a time, its worker watched, restarted where that helps, stopped when asked."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from pydantic import JsonValue

from services.trainer.server.evaluation import (
    EVALUATION_EVENT,
    EVALUATION_FAILED_EVENT,
    EvaluationError,
    Evaluations,
    When,
    figures,
)
from services.trainer.server.metrics import TrainerMetrics
from services.trainer.server.run_folder import RunFolder, last_words, size_of
from services.trainer.server.settings import TrainerSettings
from services.trainer.server.worker_process import (
    WorkerProcess,
    folder_lock,
    is_locked,
    start_process,
    worker_command,
)
from shared.buffer import AsyncEventReader, AsyncEventWriter, AsyncJobStore, IllegalTransitionError, UnknownJobError
from shared.exit_status import how_it_ended
from shared.recipe import Recipe
from shared.schemas.job import JobState

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""How often Redis is asked for a change that came from elsewhere; one from this service's own API counts at once."""

ENDED_EVENT = "trainer-ended"
"""Kind of the event with which a worker says how it ended."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ended."""

    status: int
    """Exit status; negative for a signal."""
    state: JobState
    """What becomes of the job, unless the worker is started again."""
    lost: bool
    """Ended by something outside of it, such as a signal or a lack of memory: a new start may do."""
    reason: str


class Supervisor:
    """Runs the jobs of a trainer service."""

    def __init__(
        self, settings: TrainerSettings, store: AsyncJobStore, evaluations: Evaluations, metrics: TrainerMetrics
    ) -> None:
        """Does nothing before `run`."""
        self._settings = settings
        self._store = store
        self._evaluations = evaluations
        self._metrics = metrics
        self._changed = asyncio.Event()
        self.job: str | None = None
        """The job being worked on."""

    def wake(self) -> None:
        """Some job has changed: look now."""
        self._changed.set()

    async def run(self) -> None:
        """Work off the queue until cancelled; a job in hand is then interrupted, and goes on at the next start."""
        lock = self._settings.runs.resolve() / "trainer.lock"
        if is_locked(lock):
            logger.warning("another trainer service works in %s (it holds %s): waiting for its end", lock.parent, lock)
        async with folder_lock(lock):
            await self._interrupt_what_nobody_runs()
            while True:
                job = await self._store.turn()
                if job is None:
                    await self._wait_for_change()
                    continue
                self.job = job
                try:
                    await self._work_on(job)
                finally:
                    self.job = None

    async def _interrupt_what_nobody_runs(self) -> None:
        for job in await self._store.all():
            await self._change(job.id, JobState.RUNNING, JobState.INTERRUPTED, "the trainer service ended unexpectedly")

    async def _work_on(self, job: str) -> None:
        recipe = await self._store.recipe(job)
        if recipe is None:
            return  # it was cancelled and deleted meanwhile
        folder = RunFolder(self._settings.run_folder(job))
        try:
            folder.prepare(recipe)
            if is_locked(folder.lock_file):
                logger.warning("a worker of an earlier trainer service still trains: waiting", extra={"job": job})
            async with folder_lock(folder.lock_file) as lock:
                await self._store.transition(job, JobState.RUNNING)
                await self._train(folder, recipe, lock)
        except (IllegalTransitionError, UnknownJobError) as error:
            logger.info("%s: somebody changed it meanwhile", error, extra={"job": job})
        except asyncio.CancelledError:
            await self._change(job, JobState.RUNNING, JobState.INTERRUPTED, "the trainer service was stopped")
            raise
        except OSError as error:  # the run folder cannot be written to; the next job's may be all right
            logger.error("the run folder is of no use: %s", error, extra={"job": job})
            await self._store.transition(job, JobState.FAILED, f"{type(error).__name__}: {error}")

    async def _train(self, folder: RunFolder, recipe: Recipe, lock: IO[str]) -> None:
        """Evaluate, run the job's worker, again where it was lost, and evaluate once more: until the job is over.

        Raises `IllegalTransitionError` when somebody else changed the job's state.
        """
        job, lost_in_a_row = folder.job, 0
        await self._evaluate(folder, recipe, When.BEFORE, lock)
        while await self._store.state(job) is JobState.RUNNING:
            version = await self._version(job)
            ending = await self._run_worker(folder, lock)
            logger.info("the worker ended with status %d: %s", ending.status, ending.reason, extra={"job": job})
            if await self._store.state(job) is not JobState.RUNNING:
                return
            if not ending.lost:
                if ending.state is JobState.COMPLETED:
                    await self._evaluate(folder, recipe, When.AFTER, lock)
                await self._store.transition(job, ending.state, ending.reason)
                return
            lost_in_a_row = 1 if await self._version(job) > version else lost_in_a_row + 1
            if lost_in_a_row > self._settings.restarts:
                await self._store.transition(job, JobState.FAILED, ending.reason)
                return
            wait_s = self._settings.restart_wait_s * 2 ** (lost_in_a_row - 1)
            self._metrics.worker_restarts.inc()
            await self._store.transition(
                job, JobState.INTERRUPTED, f"{ending.reason}\nIt is started again in {wait_s:g} s."
            )
            await self._wait_unless_changed(job, JobState.INTERRUPTED, wait_s)
            await self._store.transition(job, JobState.RUNNING)

    async def _run_worker(self, folder: RunFolder, lock: IO[str]) -> Ending:
        """Run the worker once; stop it when the job is not to run any more."""
        events = AsyncEventReader(self._settings.redis_url, folder.job)
        try:
            position, log_size = await events.last_id(), size_of(folder.log)
            command = worker_command(self._settings, folder)
            async with start_process(command, self._settings, folder.log, lock) as worker:
                status = await self._watch(worker, folder.job)
            told = await events.last(ENDED_EVENT, position)
            return ending_of(status, None if told is None else told.payload, last_words(folder.log, log_size))
        finally:
            await events.close()

    async def _evaluate(self, folder: RunFolder, recipe: Recipe, when: When, lock: IO[str]) -> None:
        """Make the evaluation if it is due, and tell what came of it. One that fails does not end the job."""
        if not self._evaluations.due(recipe, folder, when):
            return
        log, log_size = folder.evaluation_log, size_of(folder.evaluation_log)
        events = AsyncEventWriter(self._settings.redis_url, folder.job)
        try:
            await self._evaluations.prepare(recipe, when)
            command = self._evaluations.command(folder, when)
            async with start_process(command, self._settings, log, lock) as process:
                status = await self._watch(process, folder.job)
            if await self._store.state(folder.job) is not JobState.RUNNING:
                return
            if status != 0:
                raise EvaluationError(f"its process {how_it_ended(status)}\n{last_words(log, log_size)}")
            await events.emit(EVALUATION_EVENT, figures(folder, when))
        except EvaluationError as error:
            logger.error("no evaluation %s training: %s", when, error, extra={"job": folder.job})
            await events.emit(EVALUATION_FAILED_EVENT, {"when": when.value, "reason": str(error)})
        finally:
            await events.close()

    async def _watch(self, process: WorkerProcess, job: str) -> int:
        """The exit status of a child, which is stopped when the job is not to run any more."""
        ended = asyncio.create_task(process.wait())
        try:
            while not ended.done():
                await self._wait_for_change(ended)
                if await self._store.state(job) is not JobState.RUNNING:
                    await process.stop(self._settings.stop_deadline_s)
            return await ended
        finally:
            ended.cancel()

    async def _wait_unless_changed(self, job: str, state: JobState, seconds: float) -> None:
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0 and await self._store.state(job) is state:
            await self._wait_for_change(most_s=left)

    async def _wait_for_change(self, ended: "asyncio.Task[int] | None" = None, most_s: float = POLL_S) -> None:
        """Until `wake`, the worker's end, or a moment later."""
        changed = asyncio.create_task(self._changed.wait())
        try:
            watched = {changed} if ended is None else {changed, ended}
            await asyncio.wait(watched, timeout=min(POLL_S, most_s), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        self._changed.clear()

    async def _version(self, job: str) -> int:
        found = await self._store.get(job)
        return 0 if found is None else found.policy_version

    async def _change(self, job: str, before: JobState, to: JobState, reason: str) -> None:
        """Change the job's state if it is ``before``."""
        with contextlib.suppress(IllegalTransitionError):  # somebody was faster
            if await self._store.state(job) is before:
                await self._store.transition(job, to, reason)


def ending_of(status: int, told: Mapping[str, JsonValue] | None, last_words: str) -> Ending:
    """What the exit status, the worker's own event and the end of its log say together."""
    said = None if told is None else str(told["state"])
    if status == 0 and said == JobState.COMPLETED:
        return Ending(status, JobState.COMPLETED, lost=False, reason=str(told["reason"]) if told else "")
    # Without a word, or told to stop by somebody else: something from outside ended it, so a new start may do.
    lost = said != JobState.FAILED and status != 0
    how = f"the training process {how_it_ended(status)}"
    reason = str(told["reason"]) if told is not None and said == JobState.FAILED else how
    if last_words:
        reason += f"\nThe end of its log:\n{last_words}"
    return Ending(status, JobState.FAILED, lost, reason)
