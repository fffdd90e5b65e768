"""What a page of the dashboard is, and what it is given."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from services.trainer.server.service import TrainerService


@dataclass(frozen=True, slots=True)
class View:
    """One opening of a page by one browser."""

    service: TrainerService
    """The parts of the running trainer service."""
    parameters: Mapping[str, str]
    """What the placeholders of the page's route stand for."""
    query: Mapping[str, str]
    """The query of the address."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page."""

    route: str
    """Its path, such as ``/runs/{job}``; a placeholder stands for one part between slashes."""
    title: str
    """In the browser's tab."""
    build: Callable[[View], Awaitable[None]]
    """Draws it. A `ProblemError` or a fault of Redis that it raises is shown in its place."""
    menu: str | None = None
    """Its word in the menu; None for a page that others lead to."""
