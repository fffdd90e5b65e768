"""A chart in its card: a title, the drawing, and its downloads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from nicegui import ui

from services.trainer.dashboard.parts import written

_SAVE_PICTURE = """
const chart = getElement({id}).chart;
const link = document.createElement("a");
link.href = chart.getDataURL({{
  pixelRatio: 2,
  backgroundColor: getComputedStyle(document.body).getPropertyValue("--card").trim(),
}});
link.download = "{name}.png";
link.click();
"""


@contextmanager
def chart_section(title: str) -> Iterator[ui.element]:
    """A heading, and the grid for its charts."""
    with ui.element("section").classes("chart-section"):
        written("h2", title)
        yield ui.element("div").classes("chart-grid")


class ChartCard:
    """One chart; drawn anew only where its options have changed."""

    def __init__(self, key: str, title: str, note: str, csv: Callable[[], str], look: str = "") -> None:
        """Empty at first. ``key`` names its downloads, ``csv`` gives the table; ``look`` is small or wide."""
        with ui.element("figure").classes(f"card chart-card {look}").props(f'data-chart="{key}"') as self._card:
            with ui.element("figcaption"):
                with ui.element("div"):
                    written("h3", title)
                    self._note = written("p", note, "note")
                with ui.element("div").classes("downloads"):
                    _download("PNG", f"{title}: download as a picture", self._save_picture)
                    _download("CSV", f"{title}: download as a table", lambda: ui.download.content(csv(), f"{key}.csv"))
            self._chart = ui.echart({}).classes("chart")
            self._chart.props(f'role="img" aria-label="{title}"')
        self._key = key
        self._shown: Mapping[str, object] = {}

    def show(self, options: Mapping[str, object]) -> None:
        """Draw with these options."""
        if options != self._shown:
            self._shown = options
            held = cast(dict[str, object], self._chart.options)
            held.clear()
            held.update(options)
            self._chart.update()

    def set_visible(self, visible: bool) -> None:
        """Keep the card on the page, or leave it out."""
        self._card.set_visibility(visible)

    def note(self, text: str) -> None:
        """Change the line below the title."""
        self._note.set_text(text)

    def _save_picture(self) -> None:
        ui.run_javascript(_SAVE_PICTURE.format(id=self._chart.id, name=self._key))


def _download(word: str, meaning: str, then: Callable[[], None]) -> None:
    ui.button(word, on_click=then, color=None).props(f'flat dense no-caps aria-label="{meaning}"').classes("download")
