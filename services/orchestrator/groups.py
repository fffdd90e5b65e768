"""One group: N episodes of a task from one load, failed ones tried again, whole or not at all (DESIGN §7)."""

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from services.orchestrator.environments import EnvironmentPool, Session
from services.orchestrator.episode import EpisodePlayer, TurnSeeds
from services.orchestrator.http import ServerProblemError, ServerUnavailableError
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.telling import EpisodePlace, EpisodeTeller
from shared.prompting import PromptTooLongError
from shared.recipe import EnvironmentSettings
from shared.trajectory import Episode, Group

logger = logging.getLogger(__name__)

EPISODE_FAILURES = (ServerProblemError, ServerUnavailableError, PromptTooLongError)
"""What a failed episode raises; anything else is a defect here and ends the service."""

_RETRY_PAUSE_S = 0.5


class GroupLostError(Exception):
    """An episode of the group failed for good; the message is its last failure."""


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """A group that is to be made."""

    step: int
    index: int
    environment: EnvironmentSettings
    task_index: int
    """Index of the task in the environment's training split."""
    least_version: int
    """Oldest policy version that may sample its tokens."""


class GroupMaker:
    """Makes groups, at most ``concurrency`` episodes at once over all of them."""

    def __init__(
        self,
        environments: EnvironmentPool,
        players: Mapping[str, EpisodePlayer],
        metrics: OrchestratorMetrics,
        teller: EpisodeTeller,
        *,
        group_size: int,
        concurrency: int,
        retries: int,
        seed: int,
    ) -> None:
        """``players`` by environment; ``retries`` is how often a failed episode is played again; ``seed`` decides the
        sampling.
        """
        self._environments = environments
        self._players = players
        self._metrics = metrics
        self._teller = teller
        self._group_size = group_size
        self._retries = retries
        self._seed = seed
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)  # first come, first served: groups asked for earlier go first
        self._unfinished = 0

    @property
    def room(self) -> int:
        """How many more groups it takes until no episode slot is idle."""
        return max(0, math.ceil((self._concurrency - self._unfinished) / self._group_size))

    async def make(self, order: GroupOrder) -> Group:
        """Play a whole group. Raises `GroupLostError`; then nothing of it is left running."""
        opened = _LazyOpening(self._environments, order, self._group_size)
        try:
            async with asyncio.TaskGroup() as tasks:
                members = [tasks.create_task(self._member(order, opened, place)) for place in range(self._group_size)]
                self._unfinished += len(members)
                for member in members:
                    member.add_done_callback(self._count_finished)
        except* GroupLostError as failures:
            raise GroupLostError(str(failures.exceptions[0])) from failures
        finally:
            await opened.close_unplayed()
        played = [member.result() for member in members]
        first = opened.sessions[0].first if opened.sessions else played[0].session.first
        task_type = first.info.get("task_type")
        return Group(
            step=order.step,
            index=order.index,
            environment=order.environment.name,
            task_id=first.task_id,
            task_type=task_type if isinstance(task_type, str) else "",
            episodes=tuple(one.episode for one in played),
            generation_s=max(one.ended for one in played) - min(one.started for one in played),
        )

    def _count_finished(self, _: "asyncio.Task[_Played]") -> None:
        self._unfinished -= 1

    async def _member(self, order: GroupOrder, opened: "_LazyOpening", place: int) -> "_Played":
        async with self._slots:
            for attempt in range(self._retries + 1):
                if attempt:
                    self._metrics.episodes_retried.labels(order.environment.name).inc()
                    await asyncio.sleep(_RETRY_PAUSE_S * attempt)
                try:
                    session = await (opened.session(place) if attempt == 0 else opened.replacement())
                    return await self._play(order, session, EpisodePlace(order.step, order.index, place, attempt))
                except EPISODE_FAILURES as error:
                    failure = f"episode {place} failed {attempt + 1} times, last: {error}"
                    logger.warning(failure, extra={"episode": place})
            raise GroupLostError(failure)

    async def _play(self, order: GroupOrder, session: Session, place: EpisodePlace) -> "_Played":
        started, name = time.monotonic(), order.environment.name
        player = self._players[name]
        seeds = TurnSeeds(self._seed, place.step, place.group, place.member, place.attempt)
        self._metrics.episodes_in_flight.inc()
        try:
            with self._teller.episode(place, name, session.first, player.written) as told:
                episode = await player.play(session, order.least_version, seeds, told.add)
                told.finish(episode)
            return _Played(session, episode, started, time.monotonic())
        finally:
            self._metrics.episodes_in_flight.dec()
            await self._environments.close(session)


@dataclass(frozen=True, slots=True)
class _Played:
    session: Session
    episode: Episode
    started: float
    ended: float


class _LazyOpening:
    """Opens all sessions of a group at once, when the first of its episodes may start."""

    def __init__(self, environments: EnvironmentPool, order: GroupOrder, count: int) -> None:
        self._environments = environments
        self._order = order
        self._count = count
        self._lock = asyncio.Lock()
        self._failed: Exception | None = None
        self._taken: set[int] = set()
        self.sessions: list[Session] = []

    async def session(self, place: int) -> Session:
        """The session of one member; raises what opening them raised, to every member."""
        async with self._lock:
            if self._failed is not None:
                raise self._failed
            if not self.sessions:
                try:
                    self.sessions = await self._open(self._count)
                except EPISODE_FAILURES as error:
                    self._failed = error
                    raise
        self._taken.add(place)
        return self.sessions[place]

    async def close_unplayed(self) -> None:
        """Close the sessions whose turn never came, because the group was lost or cancelled before."""
        unplayed = [session for place, session in enumerate(self.sessions) if place not in self._taken]
        await asyncio.gather(*(self._environments.close(session) for session in unplayed))

    async def replacement(self) -> Session:
        """One more session of the same task."""
        return (await self._open(1))[0]

    async def _open(self, count: int) -> list[Session]:
        environment = self._order.environment
        return await self._environments.open(
            environment, split=environment.split, index=self._order.task_index, task_id=None, count=count
        )
