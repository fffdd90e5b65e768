"""Seeded choices that come out the same on every machine and Python version."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Choices made from one source of numbers in [0, 1).

    Only `random.Random.random` is promised to give the same numbers in all Python versions, so
    everything is made of it.
    """

    def __init__(self, source: Callable[[], float]) -> None:
        """``source`` gives the numbers; use `seeded` for a random one."""
        self.number = source

    @classmethod
    def seeded(cls, *seed: object) -> "Dice":
        """Dice whose throws are decided by the parts of the seed."""
        return cls(random.Random("/".join(map(str, seed))).random)

    def below(self, count: int) -> int:
        """A whole number from 0 to ``count`` - 1."""
        return int(self.number() * count)

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.number() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.number() < probability

    def skewed(self, power: int) -> float:
        """A number in [0, 1) that is small more often than not: the product of ``power`` times the same throw."""
        # Multiplied, because how `**` rounds is up to the machine's C library.
        throw = self.number()
        result = throw
        for _ in range(power - 1):
            result *= throw
        return result

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self.number() * len(choices))]

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        """Up to ``count`` different ones, in random order."""
        left = list(choices)
        return [left.pop(int(self.number() * len(left))) for _ in range(min(count, len(left)))]

    def subset(self, choices: Sequence[T], count: int) -> list[T]:
        """Up to ``count`` different ones, in their own order."""
        places = sorted(self.sample(range(len(choices)), count))
        return [choices[place] for place in places]
