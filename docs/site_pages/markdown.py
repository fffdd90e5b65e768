"""Small pieces of Markdown."""

import json
import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"(`+[^`]+`+)")


def one_line(text: str | None) -> str:
    """Text for a table's cell: on one line, and nothing in it that ends the cell or opens a tag.

    What stands in backticks stays as it is: the site's tables don't split there.
    """
    joined = " ".join((text or "").split())
    parts = _CODE.split(joined)
    return "".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown already. Without rows, nothing."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines, ""])


def code(text: str) -> str:
    """Text as inline code."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(text: str, language: str) -> str:
    """A block of code. The fence is longer than any in it."""
    longest = max((len(found) for found in re.findall(r"^\s*(`{3,})", text, re.MULTILINE)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def json_block(value: object) -> str:
    """A value as a block of JSON."""
    return fenced(json.dumps(value, ensure_ascii=False, indent=2), "json")


def page(title: str, *parts: str) -> str:
    """A page: its title, and its parts with empty lines between them."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"
