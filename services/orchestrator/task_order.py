"""Which task each group is for: seeded, no repeats within a pass over a split, alike after a restart (DESIGN §7)."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A split to draw tasks from."""

    environment: str
    split: str
    size: int
    """Number of tasks."""
    weight: float = 1.0
    """Share of the tasks, relative to the other sources'."""


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """One drawn task."""

    source: int
    """Place of the source in the list that they were drawn from."""
    index: int
    """Index of the task in its split."""


def turns(weights: Sequence[float]) -> Iterator[int]:
    """Whose turn it is, for ever: always of the one that is furthest behind its share, the first among equals.

    So every training step has each environment in the share that its weight says, where drawing lots would not.
    """
    total, had = sum(weights), [0] * len(weights)
    for turn in count(1):
        chosen = max(range(len(weights)), key=lambda place: weights[place] * turn / total - had[place])
        had[chosen] += 1
        yield chosen


def shares(weights: Sequence[float], total: int) -> list[int]:
    """How many of ``total`` each gets."""
    chosen = list(islice(turns(weights), total))
    return [chosen.count(place) for place in range(len(weights))]


class TaskOrder:
    """An endless sequence of tasks, decided by the seed, the sources' names, sizes and weights, and nothing else."""

    def __init__(self, sources: Sequence[TaskSource], seed: int) -> None:
        """Raises ValueError where there is nothing to draw from."""
        for source in sources:
            if source.size < 1:
                raise ValueError(
                    f"split {source.split!r} of {source.environment!r} has no task: check the data, or the recipe"
                )
        if not sources:
            raise ValueError("there is no environment to draw tasks from")
        self._sources = list(sources)
        self._seed = seed
        self._turns = turns([source.weight for source in sources])
        self._counts = [0] * len(sources)
        self._choices: list[TaskChoice] = []
        self._permutations: dict[tuple[int, int], list[int]] = {}

    def choice(self, position: int) -> TaskChoice:
        """The task at a place of the sequence, from 0."""
        while len(self._choices) <= position:
            self._choices.append(self._next())
        return self._choices[position]

    def _next(self) -> TaskChoice:
        chosen = next(self._turns)
        passes, place = divmod(self._counts[chosen], self._sources[chosen].size)
        self._counts[chosen] += 1
        return TaskChoice(chosen, self._permutation(chosen, passes)[place])

    def _permutation(self, chosen: int, passes: int) -> list[int]:
        """The order of one pass over a source's tasks; only the latest pass is kept."""
        key = (chosen, passes)
        if key not in self._permutations:
            source = self._sources[chosen]
            order = list(range(source.size))
            random.Random(f"{self._seed}/{source.environment}/{source.split}/{passes}").shuffle(order)
            self._permutations = {kept: value for kept, value in self._permutations.items() if kept[0] != chosen}
            self._permutations[key] = order
        return self._permutations[key]
