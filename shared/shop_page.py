"""WebShop's rich pages for a person: long lists on few lines, everything that can be clicked numbered.

The terminal and the dashboard draw them, each in its own way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BUTTON = re.compile(r" *\[(?:clicked )?button\] (?P<label>.*) \[(?:clicked )?button_\]")
_CLICKED = "[clicked button]"
_NOTICE = re.compile(r"You have clicked .*\.")


@dataclass(frozen=True, slots=True)
class Clickable:
    """A button: what to type for it, and what it says."""

    number: int | None
    """From 1, as the page's clickables are numbered; None for what looks like a button and is none."""
    label: str
    clicked: bool


@dataclass(frozen=True, slots=True)
class Buttons:
    """Buttons that stand together."""

    buttons: list[Clickable]


@dataclass(frozen=True, slots=True)
class Listed:
    """A product on a result list."""

    button: Clickable
    title: str
    price: str


Line = str | Buttons | Listed
"""Something on a line of its own."""


def page_lines(text_rich: str, clickables: Sequence[str]) -> list[Line]:
    """The page, in order, without its heading, which repeats the instruction on every page."""
    rows = _without_heading(text_rich.split("\n"))
    numbers = {text: place for place, text in enumerate(clickables, 1)}
    lines: list[Line] = []
    while rows:
        row = rows.pop(0)
        found = _BUTTON.fullmatch(row)
        if found is not None:
            button = _clickable(row, found["label"], numbers)
            if lines and isinstance(lines[-1], Buttons):
                lines[-1].buttons.append(button)
            else:
                lines.append(Buttons([button]))
        elif row.strip():
            lines.append(row.strip())
        elif (
            rows and (found := _BUTTON.fullmatch(rows[0])) is not None
        ):  # only listed products have an empty line before
            lines.append(_listed(_clickable(rows.pop(0), found["label"], numbers), rows))
    return lines


def _clickable(row: str, label: str, numbers: dict[str, int]) -> Clickable:
    return Clickable(numbers.get(label.strip().lower()) or numbers.get(label.lower()), label, _CLICKED in row)


def _listed(button: Clickable, rows: list[str]) -> Listed:
    """Takes the product's title and price off the rows; either may be missing."""
    about = []
    while rows and rows[0].strip() and _BUTTON.fullmatch(rows[0]) is None:
        about.append(rows.pop(0).strip())
    price = about.pop() if about and about[-1].startswith("$") else ""
    return Listed(button, " ".join(about), price)


def _without_heading(rows: Sequence[str]) -> list[str]:
    """Notices of what was clicked stay out too: the options themselves are marked."""
    rest = list(rows)
    while rest and _NOTICE.fullmatch(rest[0]):
        del rest[0]
    if rest and rest[0] == "WebShop":
        del rest[0]
    if rest and rest[0].strip() == "Instruction:":
        del rest[:2]
    return rest
