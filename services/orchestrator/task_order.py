"""Which task each group is for: seeded, no repeats within a pass over a split, alike after a restart (DESIGN §7)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A split to draw tasks from."""

    environment: str
    split: str
    size: int
    """Number of tasks."""
    weight: float = 1.0
    """Share of the draws, relative to the other sources'."""


@dataclass(frozen=True, slots=True)
class TaskChoice:
    """One drawn task."""

    source: int
    """Place of the source in the list that they were drawn from."""
    index: int
    """Index of the task in its split."""


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
        self._draw = random.Random(f"{seed}/environments")
        self._counts = [0] * len(sources)
        self._choices: list[TaskChoice] = []
        self._permutations: dict[tuple[int, int], list[int]] = {}

    def choice(self, position: int) -> TaskChoice:
        """The task at a place of the sequence, from 0."""
        while len(self._choices) <= position:
            self._choices.append(self._next())
        return self._choices[position]

    def _next(self) -> TaskChoice:
        weights = [source.weight for source in self._sources]
        chosen = self._draw.choices(range(len(self._sources)), weights)[0]
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
