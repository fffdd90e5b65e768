"""The list of episodes on the page of running ones: one element, drawn in the browser from the rows that it is sent."""

from collections.abc import Callable, Sequence

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from services.trainer.dashboard.live_data import EpisodeLine


class LiveList(Element, component="live_list.js"):
    """Rows to choose from; the chosen one is marked."""

    def __init__(self, choose: Callable[[str], None]) -> None:
        """Empty at first; ``choose`` is told which episode a person has chosen."""
        super().__init__()
        self._shown: tuple[Sequence[EpisodeLine], str | None] = ((), None)
        self._props["rows"] = []
        self._props["chosen"] = ""

        def chosen(event: GenericEventArguments) -> None:
            choose(str(event.args))

        self.on("choose", chosen)

    def show(self, lines: Sequence[EpisodeLine], chosen: str | None) -> None:
        """Send the rows, unless the very same are shown already."""
        if (lines, chosen) != self._shown:
            self._shown = lines, chosen
            self._props["rows"] = [line.row() for line in lines]
            self._props["chosen"] = chosen or ""
            self.update()
