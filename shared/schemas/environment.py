"""Messages of the env server's REST and WebSocket API (DESIGN §4)."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    model_validator,
)

InfoValue = JsonValue
"""What may stand in an observation's ``info`` and in an environment's options: any JSON value."""

MAX_ACTION_CHARS = 16_384
"""An action longer than this is refused: it has room for a search of 10 kB, and nothing here has a use for more."""

MAX_GROUP = 1024
MAX_BATCH = 4096

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

ACTION_PATTERN = r"^[^\S\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
"""What `check_action` accepts, as a JSON Schema pattern: one line with something on it."""


def check_action(action: str) -> str:
    """The action itself. Raises `ValueError` for one that is blank, too long or has control characters."""
    if len(action) > MAX_ACTION_CHARS:
        raise ValueError(f"an action has at most {MAX_ACTION_CHARS} characters, this one {len(action)}")
    if not action or action.isspace():
        raise ValueError("an action must not be blank")
    if (control := _CONTROL.search(action)) is not None:
        raise ValueError(f"an action is one line without control characters; position {control.start()} has one")
    return action


def _whole(value: object) -> object:
    """``3.0`` is an integer to JSON Schema, and what some clients write for 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Whole = BeforeValidator(_whole)
Index = Annotated[int, Field(ge=0), _Whole]
"""An index from 0 on."""
StepLimit = Annotated[int, Field(ge=1, le=10_000), _Whole]
"""How many steps a session may have."""

Action = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ACTION_CHARS),
    AfterValidator(check_action),
    Field(json_schema_extra={"pattern": ACTION_PATTERN}),
]


class StateKeyKind(StrEnum):
    """When two states of one task count as the same."""

    OBSERVATION = "observation"
    """Equal observation text: what the paper matches."""
    OBSERVATION_INVENTORY = "observation+inventory"
    """Equal observation text and equal inventory."""
    SIMULATOR = "simulator"
    """Equal true state: the set of PDDL facts, or WebShop's page, item and chosen options."""
    HISTORY = "history"
    """Equal sequence of observations and actions since the start."""


class Message(BaseModel):
    """Base of every message: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class OptionDescription(Message):
    """One option of an environment, as ``POST /v1/sessions`` takes it under ``options``."""

    name: str
    description: str
    default: InfoValue
    choices: list[InfoValue] | None = None
    """The values allowed; None where any value of the default's type is."""


class EnvironmentDescription(Message):
    """One entry of ``GET /v1/environments``."""

    name: str
    splits: dict[str, int]
    """Split name → number of tasks."""
    max_steps: int
    """The step limit of a session that does not set its own."""
    action_format: str
    options: list[OptionDescription]
    versions: dict[str, str]
    """Package → version of what decides the environment's behaviour."""
    data_digest: str
    """SHA-256 over the task data: equal digests mean equal tasks."""

    @property
    def training_split(self) -> str:
        """The first split for training, by its name; where no name says so the first of all, empty if there is none."""
        return next((split for split in self.splits if "train" in split), next(iter(self.splits), ""))


class EnvironmentList(Message):
    """Answer of ``GET /v1/environments``."""

    environments: list[EnvironmentDescription]


class TaskPage(Message):
    """Answer of ``GET /v1/environments/{env}/tasks``."""

    tasks: list[str]
    total: int
    offset: int


class SessionRequest(Message):
    """Body of ``POST /v1/sessions``.

    The task is named by ``task_id``, by ``split`` + ``index``, or drawn by ``split`` + ``seed``.
    """

    environment: str
    task_id: str | None = None
    split: str | None = None
    index: Index | None = None
    seed: Index | None = None
    count: Annotated[int, Field(ge=1, le=MAX_GROUP), _Whole] = 1
    """How many sessions of the same task to open from one load: a group."""
    max_steps: StepLimit | None = None
    state_key: StateKeyKind = StateKeyKind.OBSERVATION
    true_state: bool = False
    """Tell the key of the true state as well, to see what the grouping by ``state_key`` hides."""
    options: dict[str, InfoValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_exactly_one_task(self) -> "SessionRequest":
        ways = [self.task_id is not None, self.index is not None, self.seed is not None]
        if sum(ways) != 1:
            raise ValueError("name the task in exactly one way: task_id, or split with index, or split with seed")
        if self.task_id is not None and self.split is not None:
            raise ValueError("split goes with index or seed; a task_id already names the task")
        if self.task_id is None and self.split is None:
            raise ValueError("index and seed need a split")
        return self


class Observation(Message):
    """A session's current state, as the policy sees it."""

    session_id: str
    task_id: str
    observation: str
    admissible_actions: list[str]
    state_key: str
    true_state: str | None = None
    """The state key of kind ``simulator``, whatever kind ``state_key`` is; absent unless it was asked for."""
    step_index: int
    """Index of the next step; 0 at first."""
    info: dict[str, InfoValue]


class SessionList(Message):
    """Answer of ``POST /v1/sessions``."""

    sessions: list[Observation]


class StepRequest(Message):
    """Body of ``POST /v1/sessions/{id}/step``."""

    action: Action
    step_index: Index


class SessionStep(StepRequest):
    """One item of ``POST /v1/steps``."""

    session_id: str


class StepBatch(Message):
    """Body of ``POST /v1/steps``."""

    steps: list[SessionStep] = Field(min_length=1, max_length=MAX_BATCH)


class StepResult(Observation):
    """An `Observation` after a step, and what the step was worth."""

    reward: float
    terminated: bool
    truncated: bool
    """The session's step limit cut the episode."""


class Problem(Message):
    """An RFC 9457 problem document (``application/problem+json``)."""

    model_config = ConfigDict(extra="allow")

    type: str
    """A stable URI reference that programs switch on, such as ``/problems/step-conflict``."""
    title: str
    status: int
    detail: str
    instance: str | None = None


class StepBatchResult(Message):
    """Answer of ``POST /v1/steps``: in the order of the request, a result or a problem each."""

    results: list[StepResult | Problem]


class SessionState(Observation):
    """Answer of ``GET /v1/sessions/{id}``."""

    history_length: int
    expires_in_s: float
    terminated: bool
    truncated: bool
