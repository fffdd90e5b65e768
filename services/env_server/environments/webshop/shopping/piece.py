"""The smallest part of a page."""

from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    """What a piece is."""

    TEXT = auto()
    BUTTON = auto()
    PRODUCT = auto()
    """An asin on a result list, which leads to the item page."""
    OPTION = auto()
    """A value that can be chosen on an item page."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text or a button."""

    text: str
    """With the white space around it that the rich view shows."""
    role: Role = Role.TEXT
    clicked: bool = False
    """For products and options: shown as clicked."""
    tag: str = "p"
    """For texts: the HTML element."""

    @property
    def visible(self) -> bool:
        """False for no text at all, and for white space with a newline in it: the original shows neither."""
        return bool(self.text) and not ("\n" in self.text and self.text.isspace())
