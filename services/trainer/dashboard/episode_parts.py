"""An episode on a page, turn by turn: what was seen, what was done, what came of it."""

from dataclasses import dataclass

from nicegui import ui

from services.trainer.dashboard.parts import Tone, chip, written

_FOLLOW = 120
"""Pixels. A reader who has scrolled up by more than that is not taken back to the newest turn."""


_LONG = 1000
"""Characters. A longer observation, such as a page of a shop, is folded to its beginning."""
_BEGINNING = 240


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn, as a page shows it."""

    index: int
    """From 0."""
    action: str
    observation: str
    """What came of the action."""
    reward: float
    valid: bool
    """Whether the environment understood the action."""
    wrote: str = ""
    """What the policy wrote, where that is more than the action."""
    version: int | None = None
    """Of the policy that acted; None where nobody's weights did."""


class Transcript:
    """A list of turns that grows at its end, and keeps the newest in sight of whoever reads there."""

    def __init__(self, name: str) -> None:
        """Empty at first; ``name`` says to screen readers whose turns they are."""
        self._frame = ui.element("div").classes("turns").props(f'tabindex=0 role="log" aria-label="{name}"')
        with self._frame:
            self._list = ui.element("ol")

    def begin(self, observation: str) -> None:
        """Show a new episode from its first observation on; what was shown goes."""
        self._list.clear()
        with self._list, ui.element("li").classes("turn"):
            _observation(observation)

    def add(self, turn: ShownTurn) -> None:
        """One more turn."""
        with self._list, ui.element("li").classes("turn").props(f"data-turn={turn.index}"):
            with ui.element("div").classes("turn-head"):
                written("span", str(turn.index + 1), "turn-number numbers")
                written("span", turn.action, "mono turn-action")
                with ui.element("span").classes("turn-marks"):
                    _marks(turn)
            if turn.wrote:
                with ui.element("details").classes("turn-wrote"):
                    written("summary", "what the policy wrote")
                    written("pre", turn.wrote, "mono")
            _observation(turn.observation)

    def close(self, outcome: str, tone: Tone) -> None:
        """Say below the last turn how the episode ended."""
        with self._list, ui.element("li").classes("turn turn-end"):
            chip(outcome, tone)

    def show_newest(self) -> None:
        """Bring the end of the list into sight, unless its reader has gone back to earlier turns."""
        self._frame.client.run_javascript(
            f"const frame = getHtmlElement({self._frame.id}), newest = frame?.querySelector('li:last-child');"
            "const below = newest && frame.scrollHeight - frame.scrollTop - frame.clientHeight - newest.offsetHeight;"
            f"if (newest && below < {_FOLLOW}) frame.scrollTop = frame.scrollHeight;"
        )


def reward_text(reward: float) -> str:
    """``+1``, ``−0.1``, ``0``."""
    return "0" if reward == 0 else f"{reward:+.4g}".replace("-", "−")


def _marks(turn: ShownTurn) -> None:
    if not turn.valid:
        chip("not understood", "warn")
    if turn.reward:
        chip(f"reward {reward_text(turn.reward)}", "good" if turn.reward > 0 else "bad")
    if turn.version is not None:
        written("span", f"version {turn.version}", "muted small numbers")


def _observation(text: str) -> None:
    if len(text) <= _LONG:
        written("pre", text, "turn-observation")
        return
    with ui.element("details").classes("turn-long"):
        written("summary", text[:_BEGINNING].rstrip() + " …", "turn-observation")
        written("pre", text, "turn-observation")
