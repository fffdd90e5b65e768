"""What shows a watched job."""

from types import TracebackType
from typing import Protocol, Self

from gagpo.watching.standing import Standing
from shared.schemas.job import JobEvent


class View(Protocol):
    """Shows a job while its ``with`` block lasts."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture as it is."""

    def show(self, event: JobEvent, standing: Standing) -> None:
        """An event has come, and ``standing`` has taken it."""
