"""Keeps the buffer filled: whatever group should be there and is not, is being made (DESIGN §7)."""

import asyncio
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass

from services.orchestrator.delivery import Delivery
from services.orchestrator.groups import GroupOrder
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.task_order import TaskOrder
from shared.buffer import AsyncJobChannel, BufferState, BufferTimeoutError, GroupLeases, GroupPlace
from shared.recipe import Recipe
from shared.schemas.job import JobState

logger = logging.getLogger(__name__)

_POLL_S = 0.05
_LOOK_EVERY_S = 1.0
"""How often an orchestrator with nothing to do looks for groups that others left: one that died, say."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    trainer_deadline_s: float
    """For the trainer: for new weights, or for room in the buffer."""
    resume_grace_s: float
    """For a job that is over at the start to be resumed."""
    lease_s: float
    """For another orchestrator to renew its leases, before its groups are made here."""


class Rollout:
    """Makes the groups of one job until the trainer says that it is over; several may share the job.

    It keeps no plan: from the policy version, the frontier, what the buffer holds and what others have leased follows
    which groups are missing. So a restart of an orchestrator, of the trainer or of Redis needs nothing special.
    """

    def __init__(
        self,
        recipe: Recipe,
        order: TaskOrder,
        delivery: Delivery,
        channel: AsyncJobChannel,
        leases: GroupLeases,
        metrics: OrchestratorMetrics,
        patience: Patience,
    ) -> None:
        """``order`` has one source for each of the recipe's environments, in their order."""
        self._recipe = recipe
        self._order = order
        self._delivery = delivery
        self._channel = channel
        self._leases = leases
        self._metrics = metrics
        self._patience = patience
        self._running: dict[GroupPlace, asyncio.Task[None]] = {}
        self._version: int | None = None
        self._progress = time.monotonic()
        self._look_at = 0.0
        self._renew_at = 0.0
        self._reported: set[int] = set()

    @property
    def running(self) -> list[GroupPlace]:
        """Training step and index of the groups being made."""
        return sorted(self._running)

    @property
    def policy_version(self) -> int | None:
        """The version last seen; None before the trainer set one."""
        return self._version

    async def run(self) -> JobState:
        """Work until the job is over; the state that it ended in. Cancelled, it leaves no group half made.

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
                await self._renew_leases()
                if self._version is not None and time.monotonic() >= self._look_at:
                    await self._start_missing(self._version)
                await self._wait_a_moment()
                self._check_trainer()
        finally:
            await self._give_up(list(self._running))
            await self._leases.leave()

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
            await self._give_up([place for place in self._running if place[0] > last])
        self._version = version
        self._metrics.policy_version.set(version)
        self._progress = time.monotonic()
        self._look_at = 0.0

    async def _renew_leases(self) -> None:
        """In good time; a group that somebody else has taken over meanwhile is left to them."""
        if time.monotonic() < self._renew_at:
            return
        lost = await self._leases.renew(list(self._running))
        self._renew_at = time.monotonic() + self._patience.lease_s / 3
        if lost:
            logger.warning("others took over %d groups whose leases this orchestrator did not renew in time", len(lost))
            await self._give_up([place for place in lost if place in self._running])

    async def _start_missing(self, version: int) -> None:
        """Start groups that may be made by now, are not in the buffer, and are not being made anywhere."""
        buffer = await self._delivery.buffer()
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        await self._report_left_over(buffer)
        rollout = self._recipe.rollout
        last = min(version + rollout.max_staleness, self._recipe.training.steps - 1)
        missing = [
            (step, index)
            for step in range(buffer.frontier, last + 1)
            for index in range(rollout.groups_per_step)
            if index not in buffer.present.get(step, frozenset()) and (step, index) not in self._running
        ]
        room = self._delivery.room
        if not missing or not room:
            return
        for place in await self._leases.take(missing, room, len(self._running)):
            task = self._delivery.fill(self._group_order(*place))
            self._running[place] = asyncio.create_task(task, name=f"group {place[0]}:{place[1]}")

    async def _report_left_over(self, buffer: BufferState) -> None:
        """The one that added a step's last group may have died before it reported the step."""
        whole = {step for step, there in buffer.present.items() if len(there) >= self._recipe.rollout.groups_per_step}
        for step in sorted(whole - self._reported):
            await self._delivery.report(step)
        self._reported = whole

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

    async def _wait_a_moment(self) -> None:
        """Until the next look at the version, or the end of a group; a defect in a group's task is raised here."""
        if not self._running:
            await asyncio.sleep(_POLL_S)
            return
        room = self._delivery.room
        done, _ = await asyncio.wait(self._running.values(), timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        if self._delivery.room > room:
            self._look_at = 0.0
        if not done:
            return
        self._progress = time.monotonic()
        ended = [place for place, task in self._running.items() if task in done]
        for place in ended:
            self._running[place].result()
        for place in ended:
            del self._running[place]
        await self._leases.give_back(ended)

    def _check_trainer(self) -> None:
        waited = time.monotonic() - self._progress
        if not self._running and waited > self._patience.trainer_deadline_s:
            raise BufferTimeoutError(
                f"the trainer set no new policy version for {waited:.0f} s (now: {self._version}): does it still run?"
            )

    async def _give_up(self, places: Collection[GroupPlace]) -> None:
        """Stop making groups. The leases go first: closing sessions takes as long as the env servers take to answer."""
        tasks = [self._running.pop(place) for place in places]
        for task in tasks:
            task.cancel()
        await self._leases.give_back(places)
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):  # the first one is raised elsewhere; the others would be lost
                logger.error("a group failed while it was cancelled", exc_info=ended)
