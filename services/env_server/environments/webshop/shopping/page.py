"""What a page says, before it is drawn: pieces of text and buttons, in order, and what each button does.

All views of a page are drawn from this one description (`views`), so they cannot drift apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from services.env_server.environments.webshop.shopping import views
from services.env_server.environments.webshop.shopping.action import parse_action
from services.env_server.environments.webshop.shopping.piece import Piece
from services.env_server.environments.webshop.shopping.state import SubPage
from shared.schemas.environment import InfoValue


class Button(Enum):
    """Buttons that do the same on every page. The values are their clickable texts."""

    SEARCH = "search"
    """Beside the search bar; a click on it never does anything."""
    BACK_TO_SEARCH = "back to search"
    PREVIOUS = "< prev"
    NEXT = "next >"
    BUY = "buy now"


class OpenProduct(NamedTuple):
    """An asin on a result list."""

    product: int


class ChooseOption(NamedTuple):
    """A value on an item page."""

    name: str
    value: str


Target = Button | SubPage | OpenProduct | ChooseOption
"""What a clickable leads to."""


class View(Enum):
    """How an observation shows a page; the values are those of the option ``observation_mode``."""

    TEXT = "text"
    TEXT_RICH = "text_rich"
    HTML = "html"
    URL = "url"


class Block:
    """Pieces that stand together. It remembers how it looks, for blocks are shared by all sessions and used again."""

    def __init__(self, *pieces: Piece) -> None:
        """Pieces without visible text are left out."""
        self.pieces = tuple(piece for piece in pieces if piece.visible)

    @cached_property
    def text(self) -> str | None:
        """Its part of the plain view; None when it has no pieces."""
        return views.text(self.pieces) if self.pieces else None

    @cached_property
    def text_rich(self) -> str:
        """Its part of the rich view."""
        return views.text_rich(self.pieces)

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """What the rich view says about it in front of everything, in page order."""
        return views.notices(self.pieces)

    @cached_property
    def html(self) -> str:
        """Its part of the HTML view."""
        return views.html(self.pieces)


class Actions:
    """What one can do on a page."""

    def __init__(self, targets: Mapping[str, Target], *, search_bar: bool = False) -> None:
        """``targets`` is clickable text → what it does, in the original's order."""
        self.targets = targets
        self.search_bar = search_bar
        self.clickables = tuple(targets)
        clicks = [
            f"click[{text}]" for text, target in targets.items() if target is not Button.SEARCH and _sayable(text)
        ]
        self.admissible = ("search[<query>]", *clicks) if search_bar else tuple(clicks)


def _sayable(text: str) -> bool:
    """Whether a click on a text can be said at all: not where its brackets break the action (`parse_action`)."""
    return "[" not in text or parse_action(f"click[{text}]") == ("click", text)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as a session sees it."""

    url: str
    parts: Mapping[str, InfoValue]
    """What the url is made of."""
    blocks: tuple[Block, ...]
    actions: Actions

    def show(self, view: View) -> str:
        """The page as one text."""
        match view:
            case View.TEXT:
                return views.SEPARATOR.join([block.text for block in self.blocks if block.text is not None])
            case View.TEXT_RICH:
                # Each notice is put in front of what is there already, so the last in page order comes first.
                notices = [notice for block in self.blocks for notice in block.notices]
                return "".join([*reversed(notices), *[block.text_rich for block in self.blocks]])
            case View.HTML:
                return views.document(
                    "".join([block.html for block in self.blocks]), search_bar=self.actions.search_bar
                )
            case View.URL:
                return self.url
