"""What an agent typed: ``search[…]`` or ``click[…]``."""

from typing import NamedTuple


class Action(NamedTuple):
    """A parsed action."""

    name: str
    """As typed: only ``search`` and ``click``, in exactly this spelling, mean anything."""
    argument: str
    """Lower-cased, not stripped; never empty."""


def parse_action(text: str) -> Action | None:
    """Take an action apart; None for a text that is none.

    The original matches ``(.+)\\[(.+)\\]`` from the start, greedily and without anchoring the end, and the dot stops at
    a newline. So what follows the last ``]`` is ignored, and a nested bracket makes the name a nonsensical one. The
    same is found here by position: on many brackets that expression takes quadratic time.
    """
    line, _, _ = text.partition("\n")
    closing = line.rfind("]")
    opening = line.rfind("[", 1, max(closing - 1, 0))
    if opening < 0:
        return None
    return Action(line[:opening], line[opening + 1 : closing].lower())
