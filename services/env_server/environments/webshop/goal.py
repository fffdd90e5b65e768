"""What an episode is about: the thing wanted."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Protocol


class GoalKind(StrEnum):
    """The two sets of goals that a catalogue has."""

    SYNTHETIC = "synthetic"
    """One for every combination of option values of every product with an instruction."""
    HUMAN = "human"
    """One for every instruction that a person wrote."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal, with all that its reward needs."""

    kind: GoalKind
    index: int
    """Place in the (shuffled) order of its set: the number in the task id."""
    asin: str
    instruction: str
    """The whole text, options and price included, as the original shows it after ``Instruction:``."""
    attributes: tuple[str, ...]
    options: Mapping[str, str] | tuple[str, ...]
    """Synthetic: option name → wanted value. Human: wanted values."""
    price_upper: float
    """The highest price that counts as a match."""
    query: str
    category: str
    product_category: str
    title: str
    """Of the wanted product."""
    title_nouns: tuple[str, ...]
    """Of the wanted product's title, with repeats."""
    weight: float


class GoalTable(Protocol):
    """The goals of one kind, in their order. Holds no list of them in memory."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def goal(self, index: int) -> Goal:
        """One goal. Raises IndexError beyond the ends (negative indices too)."""
        ...

    def draw(self, random: Random, among: range | None = None, *, mended: bool = False) -> int:
        """The index of a goal drawn as the original draws it for ``reset()``: weighted, and off by one unless mended.

        ``among`` limits the draw to neighbours in the order; the weights among them stay as they are.
        """
        ...
