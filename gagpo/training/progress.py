"""A progress bar for each training step, from the job's events in Redis."""

from collections.abc import Iterator
from typing import NoReturn

from pydantic import JsonValue
from tqdm import tqdm

from gagpo.training.records import StepMetrics
from shared.buffer import EventReader
from shared.buffer.events import FROM_START, Event

_BLOCK_S = 0.5


class StepBars:
    """Shows the groups of each step as they come in, and its metrics when the step is done."""

    def __init__(self, steps: int, groups_per_step: int) -> None:
        """``steps`` in all, each with so many groups."""
        self._steps = steps
        self._groups = groups_per_step
        self._bars: dict[int, tqdm[NoReturn]] = {}

    def show(self, event: Event) -> None:
        """Bring the bars up to date with one event."""
        if event.kind == "group":
            step = _step_of(event.payload)
            self._bar(step).update()
        elif event.kind == "step":
            metrics = StepMetrics.model_validate(event.payload)
            bar = self._bar(metrics.step)
            bar.update(self._groups - bar.n)
            bar.set_postfix_str(metrics.shown())
            bar.close()
            del self._bars[metrics.step]

    def close(self) -> None:
        """Leave unfinished bars as they are."""
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()

    def _bar(self, step: int) -> "tqdm[NoReturn]":
        if step not in self._bars:
            self._bars[step] = tqdm(
                total=self._groups,
                desc=f"step {step + 1:>3}/{self._steps}",
                unit="group",
                position=len(self._bars),
                bar_format="{desc} {percentage:3.0f}%|{bar:12}| {elapsed}  {postfix}",
            )
        return self._bars[step]


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
