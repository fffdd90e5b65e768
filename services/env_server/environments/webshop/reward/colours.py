"""How WebShop's reward reduces option values to plain colours before it compares them.

The list and its order are the original's, because the first word of it that fits decides.
"""

import json
from functools import lru_cache
from pathlib import Path

COLOUR_WORDS: tuple[str, ...] = tuple(json.loads(Path(__file__).with_name("colour_words.json").read_text("utf-8")))


@lru_cache(maxsize=1 << 15)
def plain_value(value: str) -> str:
    """The first colour word that a value contains, or the value itself.

    A word counts anywhere in the text, as it does in the original by accident: ``standard`` becomes ``tan``,
    ``wine red`` becomes ``red``.
    """
    return next((word for word in COLOUR_WORDS if word in value), value)


@lru_cache(maxsize=1 << 15)
def plain_pair(name: str, value: str) -> str:
    """What a synthetic goal's option is compared as: a colour word that name or value equals, or both as one text.

    The original hands the (name, value) pair as a whole to code that expects a value. So a colour word has to *be* the
    name or the value here, and everything else is compared as Python prints the pair: with the name as one more word,
    and with a no-break space as the letters ``xa0``.
    """
    return next((word for word in COLOUR_WORDS if word in (name, value)), str((name, value)))
