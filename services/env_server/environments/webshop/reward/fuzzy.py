"""When two short texts count as the same: the fuzzy match that WebShop's reward uses.

The measure is the token set ratio of fuzzywuzzy and its successors, which compares texts as sets of words, so that
a text whose words are all in the other is a full match: ``blue`` and ``light blue``, say. `rapidfuzz` computes it in
C++ with the same whole numbers as the pure Python library that WebShop was published with.
"""

import re
from functools import lru_cache

from rapidfuzz.fuzz import token_set_ratio

_MATCH_ABOVE = 85
"""A rounded ratio (0 to 100) has to be above this."""

_NOT_A_WORD = re.compile(r"[^a-z0-9_]")


@lru_cache(maxsize=1 << 16)
def normalised(text: str) -> str:
    """What is compared of a text: its ASCII part, in lower case, with blanks for all but letters, digits and _."""
    ascii_part = text if text.isascii() else text.encode("ascii", "ignore").decode("ascii")
    return _NOT_A_WORD.sub(" ", ascii_part.lower()).strip()


@lru_cache(maxsize=1 << 15)
def matches_any(wanted: str, offered: tuple[str, ...]) -> bool:
    """Whether a text matches at least one of others. A text without an ASCII letter or digit matches nothing."""
    words = normalised(wanted)
    return any(
        round(token_set_ratio(words, normalised(other), score_cutoff=_MATCH_ABOVE)) > _MATCH_ABOVE for other in offered
    )
