"""Spaces of text: `gymnasium.spaces.Text` with what an environment says and what it takes."""

import string
from typing import Any

from gymnasium.spaces import Text

from shared.schemas.environment import MAX_ACTION_CHARS, check_action

MAX_OBSERVATION_CHARS = 1 << 20
"""More than any page or room has."""

_PRINTABLE = string.digits + string.ascii_letters + string.punctuation


class Prose(Text):
    """Any text of at most ``max_length`` characters, in any script and on any number of lines.

    `Text` holds its character set in memory, and Unicode's 1.1 million would take hundreds of megabytes: here the
    character set is what samples are made of, and a text may have others.
    """

    def __init__(self, max_length: int = MAX_OBSERVATION_CHARS) -> None:
        """Samples are printable ASCII."""
        super().__init__(max_length, min_length=0, charset=_PRINTABLE + " \n")

    def contains(self, x: Any) -> bool:
        """Whether it is a text and short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object, /) -> bool:
        """Equal to a space of the same kind and length."""
        return type(other) is type(self) and self.max_length == other.max_length

    def __repr__(self) -> str:
        """Without the character set, which is not what it holds."""
        return f"{type(self).__name__}({self.max_length})"


class Line(Prose):
    """What an env server takes as an action: one line with something on it, without control characters."""

    def __init__(self) -> None:
        """Samples are printable ASCII without blanks: valid, and understood by no environment."""
        Text.__init__(self, MAX_ACTION_CHARS, min_length=1, charset=_PRINTABLE)

    def contains(self, x: Any) -> bool:
        """Whether the env server would take it."""
        if not isinstance(x, str):
            return False
        try:
            check_action(x)
        except ValueError:  # how it says that this is none
            return False
        return True
