"""A watched job as plain lines: for a pipe, a file, the log of another program."""

from types import TracebackType
from typing import Self

from rich.console import Console

from gagpo.watching.evaluated import Evaluated
from gagpo.watching.standing import Standing, duration
from shared.schemas.job import Job, JobEvent


class LineView:
    """One line for each change of state, training step, checkpoint, evaluation and note."""

    def __init__(self, console: Console) -> None:
        """Writes to ``console``."""
        self._console = console

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to leave behind."""

    def show(self, event: JobEvent, standing: Standing) -> None:
        """The event's line, where it has one."""
        if (line := event_line(event, standing)) is not None:
            self._console.print(line, markup=False)


def event_line(event: JobEvent, standing: Standing) -> str | None:
    """What an event says in one line; None for one that says nothing to a reader of lines."""
    if event.kind == "state":
        return state_line(standing)
    if event.kind == "checkpoint":
        return f"checkpoint of version {event.payload.get('version')}"
    if event.kind == "note":
        return f"note: {event.payload.get('message')}"
    if event.kind == "evaluation":
        return Evaluated.model_validate(event.payload).line()
    if event.kind == "evaluation-failed":
        return f"no held-out evaluation {event.payload.get('when')} training: {event.payload.get('reason')}"
    if event.kind == "step":
        return step_line(standing)
    return None


def outcome_line(job: Job) -> str:
    """How a job ended."""
    reason = f": {job.reason}" if job.reason else ""
    return f"{job.id} {job.state.value} after {job.policy_version} of {job.steps} training steps{reason}"


def first_line(reason: str | None) -> str:
    """What a reason says before it goes into details, such as the end of a log."""
    return reason.splitlines()[0] if reason else ""


def state_line(standing: Standing) -> str:
    """The state, and why in short: `outcome_line` tells all of it."""
    return f"{standing.state.value}: {first_line(standing.reason)}".removesuffix(": ")


def step_line(standing: Standing) -> str:
    """The latest training step's metrics."""
    step = standing.latest
    assert step is not None, "told after a training step"
    left = f"  {duration(standing.left_s)} left" if standing.left_s else ""
    return f"step {step.version:>3}/{standing.steps}  {step.shown()}  {duration(step.seconds_total)}{left}"
