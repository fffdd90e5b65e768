"""How a catalogue's goals are split, and how tasks are called."""

from collections.abc import Mapping
from random import Random

from services.env_server.environments.base import NumberedTasks, UnknownSplitError, UnknownTaskError
from services.env_server.environments.webshop.goal import Goal, GoalKind, GoalTable
from services.env_server.environments.webshop.world import World

TEST, VALID = 500, 1_000
"""The literature's cut: the first 500 goals of the (shuffled) order are for tests, the next 1,000 for validation."""
SMALL_SET = 3_000
"""A set of fewer goals gives a sixth to each of the two instead."""


class GoalTasks:
    """The goals of a world as tasks."""

    def __init__(self, world: World) -> None:
        """Only the tables' lengths are read."""
        self._tables: Mapping[GoalKind, GoalTable] = {kind: world.goals(kind) for kind in GoalKind}
        self.splits = {
            split: tasks for kind in GoalKind for split, tasks in _cut(kind, len(self._tables[kind])).items()
        }

    def tasks(self, split: str) -> NumberedTasks:
        """The tasks of a split. Raises `UnknownSplitError`."""
        if split not in self.splits:
            raise UnknownSplitError(f"split {split!r} is none of: {', '.join(self.splits)}")
        return self.splits[split]

    def goal(self, task_id: str) -> Goal:
        """The goal of a task. Raises `UnknownTaskError`."""
        for kind, table in self._tables.items():
            index = _all_of(kind, len(table)).number(task_id)
            if index is not None:
                return table.goal(index)
        held = " and ".join(
            f"{kind}-0 to {kind}-{len(table) - 1}" for kind, table in self._tables.items() if len(table)
        )
        raise UnknownTaskError(f"task_id: there is no goal {task_id[:64]!r}; there are {held}")

    def draw(self, split: str, seed: int, *, mended: bool) -> str:
        """A task of a split, drawn by weight as the original draws from all goals. Raises `UnknownSplitError`."""
        tasks = self.tasks(split)
        table = self._tables[GoalKind(split.partition("_")[0])]
        index = table.draw(Random(seed), range(tasks.start, tasks.stop), mended=mended)
        return tasks[index - tasks.start]


def _all_of(kind: GoalKind, count: int) -> NumberedTasks:
    return NumberedTasks(f"{kind}-", 0, count)


def _cut(kind: GoalKind, count: int) -> dict[str, NumberedTasks]:
    """The splits of one kind of goals, without empty ones."""
    test, valid = (TEST, VALID) if count >= SMALL_SET else (count // 6, count // 6)
    bounds = {"train": (test + valid, count), "valid": (test, test + valid), "test": (0, test)}
    return {
        f"{kind}_{name}": NumberedTasks(f"{kind}-", start, stop)
        for name, (start, stop) in bounds.items()
        if start < stop
    }
