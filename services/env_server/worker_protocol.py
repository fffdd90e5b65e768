"""What the server and its worker processes say to each other: length-prefixed msgpack over a socket pair.

A call carries a number and the worker answers calls in order, so many may be under way. Episodes' observations
travel as ready-encoded JSON or msgpack, which the server only joins into its answer.
"""

import struct
from typing import Any, Literal

import msgspec

from services.env_server.environments.base import NumberedTasks

Encoding = Literal["json", "msgpack"]

FRAME_HEADER = struct.Struct("<I")
"""Before every frame: its length in bytes."""

PROGRESS_SLOTS = 3
"""Doubles that a worker shares with the server: call number, index of the item at work, and its deadline
(seconds of the monotonic clock, 0 when the worker is idle)."""
PROGRESS_BYTES = 8 * PROGRESS_SLOTS


class Birth(msgspec.Struct, array_like=True, frozen=True):
    """What a session is before its first action. With the actions so far it is the whole session."""

    environment: str
    task_id: str
    options: dict[str, Any]
    max_steps: int
    state_key: str
    data_digest: str
    """The environment's data when the session was opened: other data could not replay it truly."""
    true_state: bool = False
    """Every answer also tells the key of the true state."""


class Item(msgspec.Struct, array_like=True, frozen=True):
    """One piece of work on one session.

    With an ``action`` it is a step. With ``birth`` the session is first built anew from ``past`` (it is not live in
    this worker). With ``keep`` false the episode is thrown away afterwards: a look at an earlier step.
    """

    session_id: str
    step_index: int
    """Steps taken before this item's action. The worker refuses when its episode is elsewhere."""
    action: str | None = None
    birth: Birth | None = None
    past: list[str] = []
    keep: bool = True


class Fault(msgspec.Struct, array_like=True, frozen=True):
    """Why an item gave no observation; becomes a problem document."""

    kind: str
    title: str
    status: int
    detail: str
    extra: dict[str, Any] = {}


LOST = "lost"
"""`Fault.kind` that never leaves the server: the episode is not live in this worker, or not at that step."""


class Outcome(msgspec.Struct, array_like=True, frozen=True):
    """What became of one item."""

    fragment: bytes = b""
    """The encoded observation or step result."""
    terminated: bool = False
    truncated: bool = False
    fault: Fault | None = None


class OpenGroup(msgspec.Struct, array_like=True, frozen=True, tag="open"):
    """Open sessions of one task from one load. Answered with an outcome for each session."""

    session_ids: list[str]
    birth: Birth
    encoding: Encoding


class RunItems(msgspec.Struct, array_like=True, frozen=True, tag="run"):
    """Work through items in order. Answered with an outcome for each."""

    items: list[Item]
    encoding: Encoding


class Drop(msgspec.Struct, array_like=True, frozen=True, tag="drop"):
    """Forget sessions. Not answered."""

    session_ids: list[str]


class DrawTask(msgspec.Struct, array_like=True, frozen=True, tag="draw"):
    """Let an environment draw a task by its own rule. Answered with one outcome, whose fragment is the task id."""

    environment: str
    split: str
    seed: int
    options: dict[str, Any]


class AskCatalogue(msgspec.Struct, array_like=True, frozen=True, tag="catalogue"):
    """Ask for all environments and their tasks. Answered with a `Catalogue`."""


class Call(msgspec.Struct, array_like=True, frozen=True):
    """A frame from the server to a worker."""

    number: int
    body: OpenGroup | RunItems | DrawTask | Drop | AskCatalogue


class CatalogueEntry(msgspec.Struct, array_like=True, frozen=True):
    """One environment: its `EnvironmentDescription` as JSON, and its tasks by split."""

    description: bytes
    tasks: dict[str, list[str] | NumberedTasks]
    draws: bool = False
    """The environment has a rule of its own for the task that a seed gets: ask with `DrawTask`."""


class Catalogue(msgspec.Struct, array_like=True, frozen=True, tag="catalogue"):
    """All environments of a worker."""

    entries: list[CatalogueEntry]


class Outcomes(msgspec.Struct, array_like=True, frozen=True, tag="outcomes"):
    """An outcome for each item of a call."""

    outcomes: list[Outcome]


class Hello(msgspec.Struct, array_like=True, frozen=True, tag="hello"):
    """The first frame of a worker: it is ready, or ``error`` says why it will never be."""

    error: str | None = None


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """A frame from a worker to the server."""

    number: int
    body: Outcomes | Catalogue | Hello


class ObservationFragment(msgspec.Struct):
    """An `Observation` of the API as a worker encodes it; the field names are the API's."""

    session_id: str
    task_id: str
    observation: str
    admissible_actions: list[str]
    state_key: str
    true_state: str | msgspec.UnsetType
    """Left out of the answer where the session was opened without it."""
    step_index: int
    info: dict[str, Any]


class StepFragment(ObservationFragment):
    """A `StepResult` of the API as a worker encodes it."""

    reward: float
    terminated: bool
    truncated: bool
