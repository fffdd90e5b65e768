"""The picture of a group on the page: one element, drawn in the browser from the numbers that it is sent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from services.trainer.dashboard.credit_data import EpisodeFilter, Grid, Spot, StepFilter


@dataclass(slots=True)
class Shown:
    """What of a group is shown."""

    episodes: EpisodeFilter = EpisodeFilter.ALL
    steps: StepFilter = StepFilter.ALL
    at: Spot | None = None
    """The cell that is open."""


class CreditGrid(Element, component="credit_grid.js"):
    """Cells that can be opened by a click or with the keyboard, filtered, and marked."""

    def __init__(
        self,
        grid: Grid,
        caption: str,
        shown: Shown,
        on_open: Callable[[Spot], Awaitable[None]],
        on_close: Callable[[], None],
    ) -> None:
        """``caption`` names it to screen readers; ``on_open`` is told which cell was opened."""
        super().__init__()
        self._props["rows"] = grid.rows
        self._props["caption"] = caption
        self._props["start"] = {
            "at": None if shown.at is None else str(shown.at),
            "episodes": shown.episodes.value,
            "steps": shown.steps.value,
        }

        async def opened(event: GenericEventArguments) -> None:
            await on_open(_spot(event.args))

        self.on("open", opened)
        self.on("close", lambda: on_close())

    def filter(self, shown: Shown) -> None:
        """Show the rows and the cells that the filters leave."""
        self.run_method("filter", shown.episodes.value, shown.steps.value)

    def show_open(self, spot: Spot | None) -> None:
        """Show that cell as open, and those that share its state; none for None."""
        self.run_method("mark", None if spot is None else str(spot))

    def focus_on(self, spot: Spot) -> None:
        """Put the keyboard's focus there."""
        self.run_method("focus", str(spot))


def _spot(message: Any) -> Spot:
    """What the browser sent, which may be anything."""
    return Spot(int(message["episode"]), int(message["turn"]))
