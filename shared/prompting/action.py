"""From what the policy generated to the action that the environment gets."""

import re
from typing import Final

from shared.prompting.template import ActionFormat
from shared.schemas.environment import MAX_ACTION_CHARS

EMPTY_ACTION: Final = "(nothing)"
"""Sent where the policy generated no text: no environment understands it, so it counts as an invalid action."""

_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL | re.IGNORECASE)
_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\s]+")


def parse_action(text: str, form: ActionFormat) -> str:
    """The action in a generated text: one line, never empty, at most as long as the env server takes.

    A text without the tags that it should have is an action itself, one that the environment won't understand.
    """
    if form is ActionFormat.TAGGED:
        found = _TAGGED.findall(text)
        text = found[-1] if found else text
    line = _UNSENDABLE.sub(" ", text).strip()
    return line[:MAX_ACTION_CHARS] or EMPTY_ACTION
