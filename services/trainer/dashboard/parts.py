"""Small pieces that pages are put together from."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from redis.exceptions import RedisError

from shared.schemas.job import JobState

REFRESH_DEADLINE_S = 10.0

Tone = Literal["good", "bad", "busy", "quiet", "warn"]

TONES: dict[JobState, Tone] = {
    JobState.QUEUED: "quiet",
    JobState.RUNNING: "busy",
    JobState.INTERRUPTED: "warn",
    JobState.COMPLETED: "good",
    JobState.FAILED: "bad",
    JobState.CANCELLED: "quiet",
}


def heading(text: str, note: str | None = None) -> None:
    """The page's own heading, with a line of explanation."""
    with ui.element("div").classes("heading"):
        written("h1", text)
        if note:
            written("p", note)


@contextmanager
def card(title: str | None = None) -> Iterator[ui.element]:
    """A framed part of a page."""
    with ui.element("section").classes("card") as element:
        if title:
            written("h2", title)
        yield element


def written(tag: str, text: str, classes: str = "") -> TextElement:
    """An HTML element that holds text alone; the text is never read as HTML."""
    return TextElement(tag=tag, text=text).classes(classes)


def chip(text: str, tone: Tone) -> ui.label:
    """A word in a coloured frame, such as a state."""
    return ui.label(text).classes(f"chip {tone}")


def state_chip(state: JobState) -> ui.label:
    """A job's state."""
    return chip(state.value, TONES[state])


def notice(tone: Tone, title: str, detail: str) -> None:
    """Something to be read: what is wrong, or that there is nothing yet, and what to do."""
    with ui.element("div").classes(f"notice {tone}").props('role="status"'):
        ui.label(title).classes("notice-title")
        ui.label(detail).classes("notice-detail")


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Names with values."""
    with ui.element("dl").classes("facts"):
        for name, value in pairs:
            with ui.element("div"):
                written("dt", name)
                written("dd", value)


def keep_up(every_s: float, refresh: Callable[[], Awaitable[None]]) -> ui.timer:
    """Call ``refresh`` again and again while the page is open.

    Redis may be away for a while: then nothing changes but a line that says so.
    """
    away = ui.label("Redis does not answer: what is shown may be old.").classes("notice bad")
    away.set_visibility(False)

    async def tolerant() -> None:
        try:
            async with asyncio.timeout(REFRESH_DEADLINE_S):
                await refresh()
        except (RedisError, OSError):
            away.set_visibility(True)
        else:
            away.set_visibility(False)

    return ui.timer(every_s, tolerant, immediate=False)


def progress_bar(share: float, name: str, *, busy: bool) -> None:
    """How far something is, from 0 to 1."""
    whole = round(100 * share)
    with (
        ui.element("div")
        .classes("progress")
        .props(f'role="progressbar" aria-label="{name}" aria-valuenow={whole} aria-valuemin=0 aria-valuemax=100')
    ):
        ui.element("div").classes("progress-done busy" if busy else "progress-done").style(f"width: {whole}%")


def text_block(text: str, name: str) -> TextElement:
    """Text with its line ends as they are, in a box that scrolls; ``name`` says what it is."""
    return written("pre", text, "text-block mono").props(f'tabindex=0 role="region" aria-label="{name}"')


class Part:
    """A part of the page with what it shows now."""

    def __init__(self, place: ui.element) -> None:
        """Empty at first."""
        self._place = place
        self._shown: object = None

    def show(self, what: object, draw: Callable[[], None]) -> None:
        """Draw, unless the very same is shown already."""
        if what != self._shown:
            self._shown = what
            self._place.clear()
            with self._place:
                draw()


class Leaving(Element):
    """Tells when the page is gone: another one was chosen, or its browser has not come back."""

    def __init__(self, then: Callable[[], None]) -> None:
        """``then`` is called once."""
        self._then = then
        super().__init__("div")

    def _handle_delete(self) -> None:
        super()._handle_delete()
        self._then()
