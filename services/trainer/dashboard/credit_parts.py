"""Pieces of the credit viewer that only draw: choices, a group in a line, the legend."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from services.trainer.dashboard.credit_compare import Agreement
from services.trainer.dashboard.credit_data import LEVELS, plain, signed
from services.trainer.dashboard.parts import written
from shared.schemas.credit import GroupSummary


def choice(label: str, choose: Callable[[Any], Awaitable[None]]) -> ui.select:
    """A select, without options at first; ``choose`` is told what was chosen, also by the server."""

    async def changed(event: ValueChangeEventArguments[Any]) -> None:
        if event.value is not None:
            await choose(event.value)

    select = ui.select({}, label=label, on_change=changed)
    # Without fading: on a slow computer that takes longer than to open a group.
    return select.props("outlined dense options-dense transition-duration=0").classes("credit-choice")


def offer(select: ui.select, options: Mapping[Any, str], value: Any) -> None:
    """Set what can be chosen and what is; nothing is sent to the browser where nothing changes."""
    if options != select.options:
        select.set_options(dict(options), value=value)
    else:
        select.set_value(value)


def group_title(group: GroupSummary) -> str:
    """A group among the others of its training step."""
    told = f"{group.index} · {group.task_type or group.environment} · {group.won} of {group.episodes} won"
    return f"{told} · |Â| to {plain(group.largest_advantage)}"


def summary(group: GroupSummary, version: int, download: Callable[[], None]) -> None:
    """What the group is, in a line, and its table to download."""
    singles = round(group.singleton_share * group.steps)
    kind = group.task_type or group.environment
    told = [
        f"{group.task_id} ({kind})" if group.task_id != kind else kind,
        f"{group.won} of {group.episodes} won",
        f"{group.steps} steps",
        f"{singles} without siblings",
        f"{group.clipped_steps} clipped" if group.trained_steps else "not trained on",
        f"made version {version}",
    ]
    with ui.element("div").classes("credit-summary"):
        written("p", " · ".join(told), "muted numbers")
        ui.button("CSV", on_click=lambda: download(), color=None).props(
            'flat dense no-caps aria-label="CSV: download the group as a table"'
        ).classes("download")


def agreement_line(found: Agreement) -> None:
    """How another algorithm's advantages go together with the recorded ones."""
    alike = "" if found.correlation is None else f"Correlation with what was recorded: {plain(found.correlation)}. "
    opposed = f"{found.opposed} of {found.steps} steps are encouraged by one and discouraged by the other."
    written("p", alike + opposed, "muted credit-agreement")


def scale(limit: float) -> None:
    """The shades from the most discouraged step to the most encouraged one."""
    with ui.element("div").classes("credit-scale numbers").props('aria-hidden="true"'):
        written("span", signed(-limit))
        for level in range(-LEVELS, LEVELS + 1):
            ui.element("i").classes(f"minus-{-level}" if level < 0 else f"plus-{level}")
        written("span", signed(limit))


def legend() -> None:
    """What the marks mean."""
    with ui.element("ul").classes("muted credit-legend"):
        for text in (
            "The number is Â: above 0, blue, the action is encouraged; below 0, orange, discouraged.",
            "Round: no other step was in this state.",
            "Corner: clipped.",
            "Framed: the same state as the open step's.",
            "Arrow keys move, Escape closes.",
        ):
            written("li", text)
