"""Tells running episodes turn by turn to whoever watches the job, and does next to nothing while nobody does."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from services.orchestrator.episode import SampledMove
from services.orchestrator.turns import Turn
from shared.buffer import TurnWriter
from shared.prompting import task_text
from shared.schemas.environment import Observation
from shared.schemas.turns import (
    MOST_ACTION_CHARS,
    MOST_OBSERVATION_CHARS,
    MOST_REASON_CHARS,
    MOST_TASK_CHARS,
    MOST_WRITTEN_CHARS,
    EpisodeBegan,
    EpisodeEnded,
    LiveRecord,
    TurnPlayed,
    shortened,
)
from shared.trajectory import Episode

logger = logging.getLogger(__name__)

REDIS_FAULTS = (RedisError, OSError)
"""What telling may fail with. Nobody sees the episodes then, and they go on."""

_LOOK_EVERY_S = 1.0
"""How often it is looked whether somebody watches."""

_TELL_EVERY_S = 0.1
_LAST_WORDS_S = 1.0
_BATCH = 128


@dataclass(frozen=True, slots=True)
class EpisodePlace:
    """Which episode of which group."""

    step: int
    group: int
    member: int
    attempt: int


@dataclass(slots=True, eq=False)
class ToldEpisode:
    """An episode that is being played, and how much of it was told. Records are made only when they are told."""

    place: EpisodePlace
    environment: str
    first: Observation
    written: Callable[[SampledMove], str]
    """All that the policy wrote for a move."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    began_at: float = field(default_factory=time.time)
    turns: list[Turn[SampledMove]] = field(default_factory=list)
    ended: EpisodeEnded | None = None
    told: int = 0
    """Records."""

    def add(self, turn: Turn[SampledMove]) -> None:
        """A turn was played."""
        self.turns.append(turn)

    def finish(self, episode: Episode) -> None:
        """It was played to its end."""
        turns = len(episode.steps)
        self.ended = EpisodeEnded(episode=self.id, turns=turns, end=episode.end, won=episode.won, score=episode.score)

    def break_off(self, reason: str) -> None:
        """It goes no further."""
        told = shortened(reason, MOST_REASON_CHARS)
        self.ended = EpisodeEnded(episode=self.id, turns=len(self.turns), end=None, reason=told)

    @property
    def untold(self) -> bool:
        """Whether there is something to tell."""
        return self.told <= len(self.turns) + (self.ended is not None)

    def next_record(self) -> LiveRecord:
        """What is told next; it counts as told then."""
        at = self.told
        self.told += 1
        if at == 0:
            return self._beginning()
        if at <= len(self.turns):
            return self._turn(at - 1)
        assert self.ended is not None, "asked for only where there is something untold"
        return self.ended

    def _beginning(self) -> EpisodeBegan:
        task_type = self.first.info.get("task_type")
        return EpisodeBegan(
            episode=self.id,
            step=self.place.step,
            group=self.place.group,
            member=self.place.member,
            attempt=self.place.attempt,
            environment=self.environment,
            task_id=self.first.task_id,
            task_type=task_type if isinstance(task_type, str) else "",
            task=shortened(task_text(self.first.observation, self.first.info), MOST_TASK_CHARS),
            observation=shortened(self.first.observation, MOST_OBSERVATION_CHARS),
            began_at=self.began_at,
        )

    def _turn(self, index: int) -> TurnPlayed:
        turn = self.turns[index]
        action, wrote = turn.move.action, self.written(turn.move)
        return TurnPlayed(
            episode=self.id,
            turn=index,
            action=shortened(action, MOST_ACTION_CHARS),
            wrote=None if wrote == action else shortened(wrote, MOST_WRITTEN_CHARS),
            observation=shortened(turn.after.observation, MOST_OBSERVATION_CHARS),
            reward=turn.after.reward,
            valid_action=turn.valid,
            policy_version=turn.move.sampled.policy_versions[0],
        )


class EpisodeTeller:
    """All episodes of one orchestrator."""

    def __init__(self, writer: TurnWriter) -> None:
        """Closes ``writer`` when it is done."""
        self._writer = writer
        self._watcher: str | None = None
        self._episodes: dict[ToldEpisode, None] = {}  # in the order in which they began
        self._away = False

    @contextmanager
    def episode(
        self, place: EpisodePlace, environment: str, first: Observation, written: Callable[[SampledMove], str]
    ) -> Iterator[ToldEpisode]:
        """An episode to add turns to while it is played; what ends the block early is told as what broke it off."""
        episode = ToldEpisode(place, environment, first, written)
        self._episodes[episode] = None
        try:
            yield episode
        except BaseException as error:
            episode.break_off(str(error) or "its group was given up")
            raise
        finally:
            if self._watcher is None:
                self._forget([episode])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Tell meanwhile."""
        task = asyncio.create_task(self._run(), name="telling")
        task.add_done_callback(_report_defect)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with suppress(*REDIS_FAULTS):  # a timeout is one of them
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self._tell()
            await self._writer.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                await self._tell_until_next_look()
            except REDIS_FAULTS as error:  # the rollouts do without
                if not self._away:
                    logger.warning("running episodes cannot be told to those who watch: %s", error)
                self._away = True
                self._begin_again()
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                self._away = False

    async def _look(self) -> None:
        before, self._watcher = self._watcher, await self._writer.watcher()
        if self._watcher != before:
            self._begin_again()
        if self._watcher is None:
            self._forget([episode for episode in self._episodes if episode.ended is not None])

    def _begin_again(self) -> None:
        """Whoever is new, or may have missed something, is told everything from the beginning."""
        for episode in self._episodes:
            episode.told = 0

    def _forget(self, episodes: Iterable[ToldEpisode]) -> None:
        for episode in episodes:
            self._episodes.pop(episode, None)

    async def _tell_until_next_look(self) -> None:
        look_at = time.monotonic() + _LOOK_EVERY_S
        while time.monotonic() < look_at:
            if self._watcher is not None:
                await self._tell()
            await asyncio.sleep(_TELL_EVERY_S)

    async def _tell(self) -> None:
        """Everything untold, a batch at a time, so that the episodes themselves never wait long."""
        while self._watcher is not None and (records := self._next_batch()):
            await self._writer.add(records)
            self._forget([one for one in self._episodes if one.ended is not None and not one.untold])

    def _next_batch(self) -> list[LiveRecord]:
        records: list[LiveRecord] = []
        for episode in self._episodes:
            while episode.untold and len(records) < _BATCH:
                records.append(episode.next_record())
        return records


def _report_defect(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("running episodes are told no more", exc_info=error)
