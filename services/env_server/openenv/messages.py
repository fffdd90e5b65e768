"""What OpenEnv's clients send and expect, as facts of its protocol: the fields' names are OpenEnv's or the REST API's.

Sources: the types and the server of the package ``openenv`` 0.10, and of ``openenv-core`` 0.3, which it follows.
"""

import secrets
from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from shared.schemas.environment import (
    Action,
    EnvironmentDescription,
    Index,
    InfoValue,
    Message,
    Observation,
    SessionRequest,
    StateKeyKind,
    StepLimit,
)

_NULL: JsonValue = {"type": "null"}
_SEEDS = 2**32
"""How many tasks a reset without a seed may draw from."""


class OpenEnvReset(Message):
    """What ``reset(…)`` takes. Without arguments a task of the training split is drawn at random."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        json_schema_extra={  # what the validator below checks
            "anyOf": [{"properties": {"task_id": _NULL}}, {"properties": {"split": _NULL, "index": _NULL}}]
        },
    )

    seed: Index | None = None
    """Draws the task, the same one on every machine. Of no effect where ``task_id`` or ``index`` names the task: the
    environments are deterministic."""
    episode_id: Annotated[str, Field(max_length=255)] | None = None
    """What the socket's state calls the episode; the session's id when left out, and always over HTTP."""
    split: str | None = None
    """Where ``seed`` or ``index`` choose from; the first split for training when left out."""
    index: Index | None = None
    task_id: str | None = None
    max_steps: StepLimit | None = None
    """The step limit; the environment's own when left out."""
    state_key: StateKeyKind = StateKeyKind.OBSERVATION
    true_state: bool = False
    """Tell the key of the true state in every observation."""
    options: dict[str, InfoValue] = Field(default_factory=dict)
    """The environment's own, such as ``{"expert": true}``; its metadata describes them."""

    @model_validator(mode="after")
    def _task_id_names_the_task(self) -> Self:
        if self.task_id is not None and not (self.split is None and self.index is None):
            raise ValueError("task_id already names the task: leave split and index out, or leave task_id out")
        return self

    def request(self, description: EnvironmentDescription) -> SessionRequest:
        """The session to open in the environment described."""
        drawn = self.task_id is None and self.index is None
        seed = self.seed if self.seed is not None else secrets.randbelow(_SEEDS)
        return SessionRequest(
            environment=description.name,
            task_id=self.task_id,
            split=(self.split or description.training_split) if self.task_id is None else None,
            index=self.index,
            seed=seed if drawn else None,
            max_steps=self.max_steps,
            state_key=self.state_key,
            true_state=self.true_state,
            options=self.options,
        )


class OpenEnvAction(Message):
    """One action. The REST API's rules about repeated steps hold where it has a ``step_index``."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    action: Action
    """One line of text, such as ``go to desk 1`` or ``search[red shoes]``."""
    step_index: Index | None = None
    """Index of this step, from 0 on: sent again with the same action it gives the stored result. The session's next
    step when left out."""
    metadata: dict[str, InfoValue] = Field(default_factory=dict)
    """A field of every OpenEnv action; nothing here reads it."""


class OpenEnvStep(Message):
    """Body of ``POST /step``."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    action: OpenEnvAction
    session_id: str
    """What the reset's observation told: over HTTP nothing else says which episode is meant."""
    timeout_s: Annotated[float, Field(gt=0)] | None = None
    """OpenEnv's clients may send it; the server's own deadline holds."""
    request_id: Annotated[str, Field(max_length=255)] | None = None
    """OpenEnv's clients may send it; nothing here reads it."""


class OpenEnvSeen(Observation):
    """An observation as it travels: the fields of the REST API's answer to a step, without the reward."""

    session_id: str
    """The session in the REST API that is this episode."""
    terminated: bool
    truncated: bool


class OpenEnvObservation(OpenEnvSeen):
    """An observation as OpenEnv's schemas describe one: with the reward and the end, which travel beside it."""

    done: bool
    """Terminated or truncated."""
    reward: float | None
    """None after a reset."""


class OpenEnvResult(Message):
    """Answer of ``reset`` and ``step``."""

    observation: OpenEnvSeen
    reward: float | None
    done: bool


class OpenEnvState(Message):
    """Answer of ``state``. Before the first reset there is no episode, and all but the count is null."""

    episode_id: str | None = None
    step_count: int = 0
    session_id: str | None = None
    task_id: str | None = None
    terminated: bool | None = None
    truncated: bool | None = None


class OpenEnvHealth(Message):
    """Answer of ``GET /health``."""

    status: str


class OpenEnvMetadata(Message):
    """Answer of ``GET /metadata``."""

    name: str
    description: str
    version: str


class OpenEnvSchemas(Message):
    """Answer of ``GET /schema``: JSON Schemas."""

    action: dict[str, JsonValue]
    observation: dict[str, JsonValue]
    state: dict[str, JsonValue]


class ErrorCode(StrEnum):
    """The codes of error frames."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    SESSION_ERROR = "SESSION_ERROR"
