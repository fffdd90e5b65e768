"""How a small policy reads an environment: the words it knows, and how it abridges what the environment says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One step of abridging a text."""

    pattern: str
    """A regular expression (Oniguruma's, as the tokenizers library has it)."""
    by: str
    """What stands in its place; taken as it is."""
    literal: bool = False
    """The pattern is plain text."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What makes one environment's tokenizer. Nothing in it is learnt."""

    words: tuple[str, ...]
    """Every word, without the special tokens, in the order of their ids."""
    rewrites: tuple[Rewrite, ...]
    """Applied to the whole text, one after the other; lower case comes after them."""
    word_pattern: str
    """What is one word: text that no match covers is left out."""
    pieces: bool = False
    """A word that is not known is read in the longest pieces that are (``##`` marks those that go on with a word)."""
    tight: tuple[tuple[str, str], ...] = ()
    """When tokens become text again, words are joined by blanks; these are then replaced."""
    composed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words whose embeddings begin as the sum of those of their parts."""
    scale: tuple[str, ...] = ()
    """Words that stand for amounts, in rising order: the closer two are, the more alike their embeddings begin."""


def any_of(phrases: Iterable[str]) -> str:
    """A regular expression for any of the phrases, the longest where several match, that shares common beginnings.

    A plain alternation of a thousand phrases is ten times slower.
    """
    tree: dict[str, object] = {}
    for phrase in phrases:
        node = tree
        for letter in phrase:
            node = node.setdefault(letter, {})  # type: ignore[assignment]  # a tree of dicts, which types cannot say
        node[""] = {}
    return _branches(tree)


def _branches(tree: Mapping[str, object]) -> str:
    ways = [
        ("\\" if not (letter.isalnum() or letter in " '") else "") + letter + _branches(rest)
        for letter, rest in sorted(tree.items())
        if letter and isinstance(rest, Mapping)
    ]
    if not ways:
        return ""
    joined = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
    return f"(?:{joined})?" if "" in tree else joined
