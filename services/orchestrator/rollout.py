"""Keeps the buffer filled: whatever group should be there and is not, is being made (DESIGN §7)."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass

from services.orchestrator.groups import GroupLostError, GroupMaker, GroupOrder
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.tally import StepTally, group_payload
from services.orchestrator.task_order import TaskOrder
from shared.buffer import AsyncEventWriter, AsyncJobChannel, BufferTimeoutError, GroupWriter
from shared.recipe import Recipe
from shared.schemas.job import JobState

logger = logging.getLogger(__name__)

_POLL_S = 0.05
_CHECK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for the trainer, in seconds."""

    trainer_deadline_s: float
    """For new weights, or for room in the buffer."""
    resume_grace_s: float
    """For a job that is over at the start to be resumed."""


class Rollout:
    """Makes the groups of one job until the trainer says that it is over.

    It keeps no plan: from the policy version, the frontier and what the buffer holds follows which groups are missing.
    So a restart of the orchestrator, of the trainer or of Redis needs nothing special.
    """

    def __init__(
        self,
        recipe: Recipe,
        order: TaskOrder,
        maker: GroupMaker,
        writer: GroupWriter,
        channel: AsyncJobChannel,
        events: AsyncEventWriter,
        metrics: OrchestratorMetrics,
        patience: Patience,
    ) -> None:
        """``order`` has one source for each of the recipe's environments, in their order."""
        self._recipe = recipe
        self._order = order
        self._maker = maker
        self._writer = writer
        self._channel = channel
        self._events = events
        self._metrics = metrics
        self._patience = patience
        self._running: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._tallies: dict[int, StepTally] = {}
        self._version: int | None = None
        self._progress = time.monotonic()
        self._checked = 0.0

    @property
    def running(self) -> list[tuple[int, int]]:
        """Training step and index of the groups being made."""
        return sorted(self._running)

    @property
    def policy_version(self) -> int | None:
        """The version last seen; None before the trainer set one."""
        return self._version

    async def run(self) -> JobState:
        """Work until the job is over; the state that it ended in.

        Raises `BufferTimeoutError` when the trainer gives no sign of life within the deadline.
        """
        await self._wait_for_resume()
        try:
            while True:
                state = await self._channel.state()
                if state is not None and state.over:
                    logger.info("the job is %s", state.value)
                    return state
                await self._look_at_version()
                if self._version is not None and time.monotonic() - self._checked > _CHECK_EVERY_S:
                    await self._start_missing(self._version)
                await self._wait_a_moment()
                self._check_trainer()
        finally:
            await self._cancel(list(self._running))

    async def _wait_for_resume(self) -> None:
        """The state may be left from before a resume, whose trainer takes longer to start than this service."""
        give_up = time.monotonic() + self._patience.resume_grace_s
        while time.monotonic() < give_up:
            state = await self._channel.state()
            if state is None or not state.over:
                return
            await asyncio.sleep(_POLL_S)

    async def _look_at_version(self) -> None:
        version = await self._channel.policy_version()
        if version == self._version or version is None:
            return
        if self._version is not None and version < self._version:
            # The trainer went back to a checkpoint: what waits for newer weights would wait in vain.
            last = version + self._recipe.rollout.max_staleness
            await self._cancel([place for place in self._running if place[0] > last])
        self._version = version
        self._metrics.policy_version.set(version)
        self._progress = time.monotonic()
        self._checked = 0.0

    async def _start_missing(self, version: int) -> None:
        """Start every group that may be made by now, is not in the buffer, and is not being made."""
        buffer = await self._writer.state()
        self._metrics.buffer_bytes.set(buffer.held_bytes)
        rollout = self._recipe.rollout
        last = min(version + rollout.max_staleness, self._recipe.training.steps - 1)
        for step in range(buffer.frontier, last + 1):
            there = buffer.present.get(step, frozenset())
            for index in range(rollout.groups_per_step):
                if index not in there and (step, index) not in self._running:
                    self._tallies.setdefault(step, StepTally(step))
                    order = self._group_order(step, index)
                    self._running[step, index] = asyncio.create_task(self._fill(order), name=f"group {step}:{index}")
        self._checked = time.monotonic()

    def _group_order(self, step: int, index: int) -> GroupOrder:
        rollout = self._recipe.rollout
        choice = self._order.choice(step * rollout.groups_per_step + index)
        return GroupOrder(
            step=step,
            index=index,
            environment=self._recipe.environments[choice.source],
            task_index=choice.index,
            least_version=max(0, step - rollout.max_staleness),
        )

    async def _fill(self, order: GroupOrder) -> None:
        """Make one group and add it, or say that it will not come."""
        tally = self._tallies[order.step]
        about = {"step": order.step, "group": order.index}
        try:
            group = await self._maker.make(order)
        except GroupLostError as error:
            logger.error("group dropped: %s", error, extra=about)
            if await self._writer.drop(order.step, order.index, str(error)):
                name = order.environment.name
                tally.drop(name)
                self._metrics.groups_dropped.labels(name).inc()
                await self._events.emit(
                    "group-dropped",
                    {"step": order.step, "index": order.index, "environment": name, "reason": str(error)},
                )
            return
        if await self._writer.add(group, self._patience.trainer_deadline_s):
            tally.add(group)
            self._metrics.count_group(group)
            await self._events.emit("group", group_payload(group))

    async def _wait_a_moment(self) -> None:
        """Until the next look at the version, or the end of a group; a defect in a group's task is raised here."""
        if not self._running:
            await asyncio.sleep(_POLL_S)
            return
        done, _ = await asyncio.wait(self._running.values(), timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return
        self._progress = time.monotonic()
        for place in [place for place, task in self._running.items() if task in done]:
            self._running.pop(place).result()
            if not any(step == place[0] for step, _ in self._running):
                await self._report(self._tallies.pop(place[0]))

    async def _report(self, tally: StepTally) -> None:
        """The training step's groups are all made."""
        buffer = await self._writer.state()
        self._metrics.buffer_bytes.set(buffer.held_bytes)
        await self._events.emit("rollout", tally.payload(buffer.held_bytes))

    def _check_trainer(self) -> None:
        waited = time.monotonic() - self._progress
        if not self._running and waited > self._patience.trainer_deadline_s:
            raise BufferTimeoutError(
                f"the trainer set no new policy version for {waited:.0f} s (now: {self._version}): does it still run?"
            )

    async def _cancel(self, places: list[tuple[int, int]]) -> None:
        tasks = [self._running.pop(place) for place in places]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        for step in {step for step, _ in places}:
            if not any(step == still for still, _ in self._running):
                self._tallies.pop(step, None)
