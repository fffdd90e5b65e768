"""Stopping in good order: a signal sets a flag, and the work in hand asks for it at every place where it may stop."""

import signal
from collections.abc import Callable
from types import FrameType

from shared.buffer import JobChannel
from shared.schemas.job import JobState


class StoppedError(Exception):
    """The trainer was asked to stop; the step in hand is abandoned, the last checkpoint stands."""

    def __init__(self, reason: str, signal_number: int | None = None) -> None:
        """``signal_number`` is the signal that asked, None when the job was cancelled."""
        super().__init__(reason)
        self.signal_number = signal_number


class StopFlag:
    """Set by SIGTERM and SIGINT. A second signal acts at once."""

    def __init__(self) -> None:
        """Nothing asked for yet."""
        self._signal: int | None = None

    def listen(self) -> None:
        """Take over the process's signals; call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def set(self, number: int = signal.SIGTERM) -> None:
        """Ask to stop."""
        self._signal = number

    def check(self) -> None:
        """Raise `StoppedError` if the trainer was asked to stop."""
        self.check_together(lambda number: number)

    def check_together(self, highest: Callable[[int], int]) -> None:
        """The same on every process if one of them was asked; ``highest`` is `World.highest`: all have to call this."""
        number = highest(self._signal or 0)
        if number:
            raise StoppedError(f"stopped by {signal.Signals(number).name}", number)

    def check_job(self, channel: JobChannel) -> None:
        """The same, also when the job was cancelled."""
        self.check()
        if channel.state() is JobState.CANCELLED:
            raise StoppedError("the job was cancelled")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.set(number)
        signal.signal(number, signal.SIG_DFL)
