"""What every kind of ALFWorld data folder answers: its splits, its digest, and one game at a time."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from services.env_server.environments.alfworld.game_source import GameSource

SPLIT_ORDER = ("train", "valid_train", "valid_seen", "valid_unseen")


@dataclass(frozen=True, slots=True)
class DatasetIndex:
    """The task ids of each split and the digest of all task data."""

    splits: Mapping[str, tuple[str, ...]]
    digest: str


class Layout(Protocol):
    """A way in which games lie on disk."""

    @property
    def name(self) -> str:
        """What kind of data this is, for people: ``official``, ``generated`` or ``packed``."""
        ...

    def index(self) -> DatasetIndex:
        """Splits and digest; quick except the first time, when it reads all data and keeps the result in the cache."""
        ...

    def load(self, split: str, task_id: str) -> GameSource:
        """One game of the index. Raises `EnvironmentDataError` where its files are damaged."""
        ...


def make_index(tasks: Iterable[tuple[str, str, str]]) -> DatasetIndex:
    """An index from (split, task id, sha256 of the task's data) in any order; the result depends on the data alone.

    Within a split, tasks are ordered by the sha256 of their id: any first N of them are a fair sample of all types and
    rooms (sorted by name, the first hundreds would all be of one type), and the order is the same on any machine.
    """
    ordered = sorted(tasks, key=lambda task: (split_rank(task[0]), hashlib.sha256(task[1].encode()).digest(), task[1]))
    splits: dict[str, list[str]] = {}
    digest = hashlib.sha256()
    for split, task_id, sha in ordered:
        splits.setdefault(split, []).append(task_id)
        digest.update(f"{split}\t{task_id}\t{sha}\n".encode())
    return DatasetIndex({split: tuple(ids) for split, ids in splits.items()}, digest.hexdigest())


def split_rank(split: str) -> tuple[int, str]:
    """Sorts the known splits in their usual order and others after them."""
    return (SPLIT_ORDER.index(split) if split in SPLIT_ORDER else len(SPLIT_ORDER), split)


def goal_in_grammar(grammar: str) -> str:
    """The goal sentence that a game's grammar shows; empty where it shows none."""
    _, found, rest = grammar.partition("Your task is to: ")
    return rest.split('"', 1)[0].removesuffix(".") if found else ""
