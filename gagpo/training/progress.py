"""A progress bar for each training step, from the job's events in Redis."""

import sys
from collections.abc import Iterator
from typing import NoReturn, Protocol

from pydantic import JsonValue
from tqdm import tqdm

from gagpo.training.records import StepMetrics
from shared.buffer import EventReader
from shared.buffer.events import FROM_START, Event

_BLOCK_S = 0.5
_BAR = "{desc} {percentage:3.0f}%|{bar:10}| {elapsed}"


class StepWatcher(Protocol):
    """Who is told how a training goes on."""

    def show(self, event: Event) -> None:
        """Take one of the job's events."""

    def refresh(self) -> None:
        """Called again and again while nothing comes."""

    def close(self) -> None:
        """Nothing more will come."""


class Silence:
    """A watcher who shows nothing."""

    def show(self, event: Event) -> None:
        """Nothing."""

    def refresh(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class StepBars:
    """One bar a training step: it fills with the step's groups, and shows its metrics once the step is done.

    Where standard error is no terminal, a log's file say, there is no bar, and a line for each step that is done.
    """

    def __init__(self, steps: int, groups_per_step: int, done: int) -> None:
        """``steps`` in all, each with so many groups; ``done`` of them are behind us already."""
        self._steps = steps
        self._groups = groups_per_step
        self._made: dict[int, int] = {}
        self._step = done
        self._bar: tqdm[NoReturn] | None = None
        self._on_terminal = sys.stderr.isatty()

    def show(self, event: Event) -> None:
        """Bring the bars up to date with one event."""
        if event.kind == "group":
            step = _step_of(event.payload)
            self._made[step] = self._made.get(step, 0) + 1  # with staleness, groups of later steps come in as well
        elif event.kind == "step":
            self._finish(StepMetrics.model_validate(event.payload))
        self.refresh()

    def refresh(self) -> None:
        """Redraw the bar of the step in progress, if there is one left."""
        if self._step >= self._steps or not self._on_terminal:
            return
        if self._bar is None:
            self._bar = tqdm(total=self._groups, desc=self._place(), bar_format=_BAR)
        self._bar.n = min(self._groups, self._made.get(self._step, 0))
        self._bar.refresh()

    def close(self) -> None:
        """Leave an unfinished bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _finish(self, metrics: StepMetrics) -> None:
        self._step = metrics.step
        self.refresh()
        if self._bar is None:
            print(f"{self._place()}  {metrics.shown()}", file=sys.stderr, flush=True)
        else:
            self._bar.n = self._groups
            self._bar.bar_format = f"{_BAR}  {metrics.shown()}"
        self.close()
        self._step = metrics.step + 1

    def _place(self) -> str:
        return f"step {self._step + 1:>3}/{self._steps}"


def follow(reader: EventReader, after_id: str = FROM_START) -> Iterator[Event | None]:
    """Events in order; None whenever nothing came for half a second, so that the caller can look at its processes."""
    position = after_id
    while True:
        events = reader.read(position, _BLOCK_S)
        for event in events:
            position = event.id
            yield event
        if not events:
            yield None


def _step_of(payload: dict[str, JsonValue]) -> int:
    step = payload["step"]
    assert isinstance(step, int), f"an event's step is a number, not {step!r}"
    return step
