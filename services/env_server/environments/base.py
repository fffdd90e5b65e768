"""The contract between the env server and an environment.

An environment family (ALFWorld, WebShop, yours) is found through the entry-point group ``gagpo.environments``:
a name that points to a class with the shape of `EnvironmentFamily`, constructible without arguments. One instance
lives in each worker process. `EnvironmentFamily.open` gives an `Environment`: one live episode.

Everything here is plain data and synchronous code: the server owns processes, HTTP, the journal and deadlines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, overload, runtime_checkable

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
        """The stable task ids of a split, in order; `NumberedTasks` where there are very many.

        Raises `UnknownSplitError`.
        """
        ...

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> Environment:
        """An episode of a task, not yet reset. Raises `UnknownTaskError` or `InvalidOptionError`."""
        ...


@runtime_checkable
class DrawsTasks(Protocol):
    """What a family may have besides: a say in which task a session with ``split`` and ``seed`` gets.

    Without it the server draws, each task of the split as likely as any other.
    """

    def draw(self, split: str, seed: int, options: Mapping[str, InfoValue]) -> str:
        """The id of a task of the split, the same for the same arguments wherever the data is the same.

        Raises `UnknownSplitError` or `InvalidOptionError`.
        """
        ...


@dataclass(frozen=True)
class NumberedTasks(Sequence[str]):
    """The tasks of a split as ``<prefix><number>``: any number of them, in no memory."""

    prefix: str
    start: int
    """Number of the first."""
    stop: int
    """Number behind the last."""

    def __len__(self) -> int:
        return self.stop - self.start

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = range(self.start, self.stop)[index]
        return f"{self.prefix}{numbers}" if isinstance(numbers, int) else [f"{self.prefix}{n}" for n in numbers]

    def __iter__(self) -> Iterator[str]:
        return (f"{self.prefix}{number}" for number in range(self.start, self.stop))

    def __contains__(self, task_id: object) -> bool:
        return self.number(task_id) is not None if isinstance(task_id, str) else False

    def number(self, task_id: str) -> int | None:
        """The number in a task id; None for an id that is not here."""
        digits = task_id.removeprefix(self.prefix)
        if len(digits) > 18 or not digits.isdecimal() or task_id != f"{self.prefix}{int(digits)}":
            return None
        return int(digits) if self.start <= int(digits) < self.stop else None


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
