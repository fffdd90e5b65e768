"""Lucene's English analysis chain, which turns product texts and queries into the terms that are matched.

Words (`tokenizer`) lose a possessive ``'s``, are lower-cased, dropped where they are stop words, and stemmed
(`stemmer`). Accents, full-width letters and ligatures stay as they are.
"""

from functools import lru_cache
from itertools import chain

from services.env_server.environments.webshop.search.stemmer import stem
from services.env_server.environments.webshop.search.tokenizer import tokenize

STOP_WORDS = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    }
)
"""The 33 words that Lucene's English analyzer leaves out."""

_APOSTROPHES = "'’＇"


_LONGEST_REMEMBERED = 64
"""Characters; bounds the memory that made-up words can take."""


def analyze(text: str) -> list[str]:
    """The terms of a text in their order, with repeats."""
    # No word goes over a space, and texts are made of the same few words again and again: pieces are remembered.
    pieces = text.split(" ")
    terms = _remembered_terms if max(map(len, pieces)) <= _LONGEST_REMEMBERED else _terms
    return list(chain.from_iterable(map(terms, pieces)))


def _terms(piece: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in map(_normalised, tokenize(piece)) if word not in STOP_WORDS)


_remembered_terms = lru_cache(maxsize=1 << 16)(_terms)


def _normalised(word: str) -> str:
    if word[-1] in "sS" and word[-2:-1] and word[-2] in _APOSTROPHES:
        word = word[:-2]
    if word.isascii():
        return word.lower()
    # Character by character, as Java does: `str.lower` knows contexts (final sigma) and may yield several characters.
    return "".join(lower if len(lower := character.lower()) == 1 else character for character in word)
