"""The contract between the env server and an environment.

An environment family (ALFWorld, WebShop, yours) is found through the entry-point group ``gagpo.environments``:
a name that points to a class with the shape of `EnvironmentFamily`, constructible without arguments. One instance
lives in each worker process. `EnvironmentFamily.open` gives an `Environment`: one live episode.

Everything here is plain data and synchronous code: the server owns processes, HTTP, the journal and deadlines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from shared.schemas.environment import EnvironmentDescription, InfoValue, StateKeyKind


@dataclass(frozen=True, slots=True)
class Observation:
    """What the policy sees before it acts."""

    text: str
    admissible_actions: Sequence[str]
    info: Mapping[str, InfoValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one action led to."""

    observation: Observation
    reward: float
    terminated: bool
    """The episode ended by the environment's own rules (won or lost), as opposed to the step limit,
    which the server keeps."""
    valid_action: bool
    """False for an action that the environment did not understand; such a step is still a step."""


class Environment(Protocol):
    """One live episode. Deterministic: the same task, options and actions give the same observations."""

    def reset(self) -> Observation:
        """Start the episode anew and return its first observation."""
        ...

    def step(self, action: str) -> StepOutcome:
        """Apply one action. Raises nothing for an action that makes no sense: that is ``valid_action=False``."""
        ...

    def clone(self) -> Self:
        """An independent copy in the same state, cheaper than `EnvironmentFamily.open`."""
        ...

    def state_key(self, kind: StateKeyKind) -> str:
        """A string equal exactly when two states of the same task are the same under ``kind``."""
        ...


class EnvironmentFamily(Protocol):
    """All the tasks of one environment, as seen by one process."""

    def describe(self) -> EnvironmentDescription:
        """Splits and their sizes, limits, options, package versions and the data's digest."""
        ...

    def tasks(self, split: str) -> Sequence[str]:
        """The stable task ids of a split, in order. Raises `UnknownSplitError`."""
        ...

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> Environment:
        """An episode of a task, not yet reset. Raises `UnknownTaskError` or `InvalidOptionError`."""
        ...


class EnvironmentDataError(Exception):
    """The data of an environment is missing or damaged; the message says which file and what to do."""


class UnknownSplitError(Exception):
    """There is no such split; the message lists those there are."""


class UnknownTaskError(Exception):
    """There is no such task; the message names it and a way to list tasks."""


class InvalidOptionError(Exception):
    """An option of the environment has an unknown name or value; the message says what is allowed."""

    def __init__(self, option: str, message: str) -> None:
        """``option`` is the offending option's name; ``message`` says what is wrong and what would be right."""
        super().__init__(message)
        self.option = option
