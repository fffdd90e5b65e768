"""Where a watched job stands, as its events add up. Knows nothing of terminals and connections."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue

from gagpo.training.records import StepMetrics
from shared.schemas.job import JobDetail, JobEvent, JobState

_STEPS_FOR_ETA = 10
_STATE, _GROUP, _STEP = "state", "group", "step"


def _known(value: JsonValue) -> JsonValue:
    """JSON has no NaN, so a metric that is none comes as null: a job that diverges is just the one to watch."""
    return math.nan if value is None else value


Number = Annotated[float, BeforeValidator(_known)]


class TrainedStep(StepMetrics):
    """The event of a training step, with what tells whether the optimizer is well."""

    loss: Number
    kl_reference: Number
    clip_fraction: Number
    entropy: Number
    grad_norm: Number


class _Rollout(BaseModel):
    model_config = ConfigDict(extra="ignore")
    groups_per_step: int


class _Recipe(BaseModel):
    """What of the recipe is shown; the server may know more keys than this release."""

    model_config = ConfigDict(extra="ignore")
    rollout: _Rollout


class _StateChange(BaseModel):
    model_config = ConfigDict(extra="ignore")
    state: JobState
    reason: str | None = None


class _GroupMade(BaseModel):
    model_config = ConfigDict(extra="ignore")
    step: int
    index: int


@dataclass(slots=True)
class Standing:
    """A job's state, its training steps, and the groups of the step in progress."""

    job: str
    state: JobState
    reason: str | None
    steps: int
    """Training steps in all."""
    groups_per_step: int
    done: int = 0
    """Training steps done."""
    latest: TrainedStep | None = None
    _groups: dict[int, set[int]] = field(default_factory=dict)
    """Training step → indices of its groups that are there."""
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_STEPS_FOR_ETA))

    @classmethod
    def of(cls, job: JobDetail) -> Self:
        """Where the job stands before any event of it was taken."""
        recipe = _Recipe.model_validate(job.recipe)
        return cls(job.id, job.state, job.reason, job.steps, recipe.rollout.groups_per_step)

    def take(self, event: JobEvent) -> None:
        """Bring it up to date with one event; kinds that say nothing about it are passed over."""
        if event.kind == _STATE:
            change = _StateChange.model_validate(event.payload)
            self.state, self.reason = change.state, change.reason
        elif event.kind == _GROUP:
            made = _GroupMade.model_validate(event.payload)
            self._groups.setdefault(made.step, set()).add(made.index)
        elif event.kind == _STEP:
            self._finish(TrainedStep.model_validate(event.payload))

    @property
    def groups_made(self) -> int:
        """Groups of the training step in progress that are there."""
        return len(self._groups.get(self.done, ()))

    @property
    def step_s(self) -> float | None:
        """Seconds that a training step takes, the mean of the latest ten; None before the first."""
        return sum(self._seconds) / len(self._seconds) if self._seconds else None

    @property
    def left_s(self) -> float | None:
        """Seconds to the last training step; None where that cannot be told. A time budget may end the job before."""
        if self.step_s is None or self.state is not JobState.RUNNING:
            return None
        return self.step_s * max(0, self.steps - self.done)

    def _finish(self, step: TrainedStep) -> None:
        self.latest = step
        self.done = step.version
        self._seconds.append(step.seconds_total)
        for old in [number for number in self._groups if number < self.done]:
            del self._groups[old]


def duration(seconds: float) -> str:
    """As people say it: ``42 s``, ``3:05``, ``1:02:05``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, last = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"
