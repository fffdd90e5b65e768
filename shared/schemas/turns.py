"""Episodes while they are played, as they are told to whoever watches a job: ``GET /v1/jobs/{id}/turns``.

An episode is told by one `EpisodeBegan`, a `TurnPlayed` for each of its turns, and one `EpisodeEnded`, in that order.
Records are for eyes: long texts in them are cut, and say so. What is trained on are groups (`shared.trajectory`).
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from shared.trajectory import EpisodeEnd

MOST_TASK_CHARS: Final = 2_000
MOST_OBSERVATION_CHARS: Final = 4_000
MOST_ACTION_CHARS: Final = 1_000
MOST_WRITTEN_CHARS: Final = 4_000
MOST_REASON_CHARS: Final = 500


class Message(BaseModel):
    """Base of every record: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    episode: str
    """Tells one playing from every other: an episode that failed and is played again gets another one."""


class EpisodeBegan(Message):
    """An episode, when its first action is asked for."""

    kind: Literal["began"] = "began"
    step: int
    """The training step that its group is for, from 0."""
    group: int
    """The group's index within that training step, from 0."""
    member: int
    """The episode's place within the group, from 0."""
    attempt: int = 0
    """How often it has failed before."""
    environment: str
    task_id: str
    task_type: str = ""
    """The environment's own kind of task; empty where it has none."""
    task: str
    """What is to be done."""
    observation: str
    """What is seen at first."""
    began_at: float
    """Unix time, seconds."""


class TurnPlayed(Message):
    """A turn, when the environment has answered."""

    kind: Literal["turn"] = "turn"
    turn: int
    """From 0."""
    action: str
    """What the environment got."""
    wrote: str | None = None
    """What the policy wrote, where that is not just the action."""
    observation: str
    """What came of it: the next turn acts on this."""
    reward: float
    """The environment's own."""
    valid_action: bool
    """Whether the environment understood the action."""
    policy_version: int
    """Of the weights that sampled the action's first token."""


class EpisodeEnded(Message):
    """An episode that is over."""

    kind: Literal["ended"] = "ended"
    turns: int
    """How many were played."""
    end: EpisodeEnd | None
    """None for one that was broken off; then ``reason`` says why."""
    reason: str = ""
    won: bool = False
    score: float = 0.0
    """The environment's grade where it gives one, else the sum of its rewards."""


LiveRecord = EpisodeBegan | TurnPlayed | EpisodeEnded
"""One thing that is told."""

live_record: TypeAdapter[LiveRecord] = TypeAdapter(Annotated[LiveRecord, Field(discriminator="kind")])
"""Reads one from JSON."""


def shortened(text: str, most: int) -> str:
    """The text, or its first ``most`` characters and how many more there were."""
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"
