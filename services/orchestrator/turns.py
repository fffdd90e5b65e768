"""The loop of an episode: act, step, until the environment, a limit or the policy ends it. Who acts is left open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from services.orchestrator.environments import EnvironmentPool, Session
from shared.prompting import PromptTooLongError
from shared.schemas.environment import InfoValue, Observation, StepResult
from shared.trajectory import EpisodeEnd


class Move(Protocol):
    """What a policy decided, and whatever else is to be remembered of that."""

    @property
    def action(self) -> str:
        """What the environment gets."""
        ...


MoveKind = TypeVar("MoveKind", bound=Move)
MoveMade = TypeVar("MoveMade", bound=Move, covariant=True)


class Actor(Protocol[MoveMade]):
    """A policy in one episode."""

    async def act(self, now: Observation, turn: int) -> MoveMade | None:
        """The move of a turn, from 0; None to give up.

        Raises `PromptTooLongError` when the episode cannot be shown to the policy any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class Turn(Generic[MoveKind]):
    """One step of an episode."""

    seen: Observation
    move: MoveKind
    after: StepResult

    @property
    def valid(self) -> bool:
        """Whether the environment understood the action."""
        return _flag(self.after, "valid_action", True)


@dataclass(frozen=True, slots=True)
class PlayedEpisode(Generic[MoveKind]):
    """An episode from its first turn to its end."""

    first: Observation
    turns: Sequence[Turn[MoveKind]]
    end: EpisodeEnd

    @property
    def last(self) -> Observation:
        """What was seen when it stopped."""
        return self.turns[-1].after if self.turns else self.first

    @property
    def won(self) -> bool:
        """What the environment says."""
        return _flag(self.last, "won", False)

    @property
    def score(self) -> float:
        """The environment's last grade, else the sum of its rewards."""
        score = self.last.info.get("score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            return float(score)
        return sum(turn.after.reward for turn in self.turns)

    @property
    def optimal_steps(self) -> int | None:
        """Length of the expert's plan, where the environment tells it."""
        optimal = self.first.info.get("optimal_steps")
        return optimal if isinstance(optimal, int) and not isinstance(optimal, bool) else None

    @property
    def task_type(self) -> str:
        """The environment's own kind of task; empty where it has none."""
        kind: InfoValue = self.first.info.get("task_type")
        return kind if isinstance(kind, str) else ""


def _unheard(turn: Turn[MoveKind]) -> None:
    """Where nobody wants to hear of turns."""


async def play_turns(
    environments: EnvironmentPool,
    session: Session,
    actor: Actor[MoveKind],
    on_turn: Callable[[Turn[MoveKind]], None] = _unheard,
) -> PlayedEpisode[MoveKind]:
    """Play a fresh session to its end; ``on_turn`` hears of each turn.

    Raises what the actor and the env servers raise; `PromptTooLongError` only when not even the first prompt fits: an
    episode of no steps would teach nothing and hide a wrong setting.
    """
    now: Observation = session.first
    turns: list[Turn[MoveKind]] = []
    while True:
        try:
            move = await actor.act(now, len(turns))
        except PromptTooLongError:
            if not turns:
                raise
            return PlayedEpisode(session.first, turns, EpisodeEnd.PROMPT_LIMIT)
        if move is None:
            return PlayedEpisode(session.first, turns, EpisodeEnd.GAVE_UP)
        after = await environments.step(session, move.action, now.step_index)
        turns.append(Turn(now, move, after))
        on_turn(turns[-1])
        if after.terminated:
            return PlayedEpisode(session.first, turns, EpisodeEnd.TERMINATED)
        if after.truncated:
            return PlayedEpisode(session.first, turns, EpisodeEnd.STEP_LIMIT)
        now = after


def _flag(observation: Observation, name: str, default: bool) -> bool:
    value = observation.info.get(name, default)
    return value if isinstance(value, bool) else default
