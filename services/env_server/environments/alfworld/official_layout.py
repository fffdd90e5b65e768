"""Games in folders as the official release has them: ``<split>/<task>/<trial>/{game.tw-pddl, traj_data.json}``."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, ValidationError

from services.env_server.environments.alfworld.dataset_index import (
    SPLIT_ORDER,
    DatasetIndex,
    goal_in_grammar,
    make_index,
)
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.base import EnvironmentDataError
from shared.files import cache_folder, locked, write_atomically

GAME_FILE = "game.tw-pddl"
TRAJECTORY_FILE = "traj_data.json"
INDEX_VERSION = 1
SOLVABLE = re.compile(rb'"solvable":\s*true')
ModelT = TypeVar("ModelT", bound=BaseModel)


class GameFile(BaseModel):
    """``game.tw-pddl``; the older release has no walkthrough."""

    pddl_domain: str
    grammar: str
    pddl_problem: str
    walkthrough: list[str] | None = None


class Annotation(BaseModel):
    """What one person wrote."""

    task_desc: str


class Annotations(BaseModel):
    """What people wrote for one task."""

    anns: list[Annotation] = Field(default_factory=list)


class TrajectoryFile(BaseModel):
    """The parts of ``traj_data.json`` that are used here."""

    task_type: str
    turk_annotations: Annotations = Field(default_factory=Annotations)


class OfficialLayout:
    """A folder whose subfolders are splits; our generator writes the same layout."""

    def __init__(self, root: Path, name: str) -> None:
        """``root`` holds the split folders; ``name`` is ``official`` or ``generated``."""
        self._root = root
        self.name = name

    def index(self) -> DatasetIndex:
        """The playable games: those that stock ALFWorld plays too (solvable, nothing sliced, no movable receptacle)."""
        games = sorted(self._games())
        stamp = hashlib.sha256(f"{INDEX_VERSION}\n{self._root.resolve()}\n".encode())
        for split, task_id in games:
            for file in (GAME_FILE, TRAJECTORY_FILE):
                status = (self._root / split / task_id / file).stat()
                stamp.update(f"{split}\t{task_id}\t{file}\t{status.st_size}\t{status.st_mtime_ns}\n".encode())
        cached = cache_folder("alfworld") / f"official-{stamp.hexdigest()[:32]}.json"
        with locked(cached):
            if not cached.is_file():
                tasks = [task for task in map(self._hash, games) if task]
                write_atomically(cached, json.dumps(tasks).encode())
            return make_index(tuple(task) for task in json.loads(cached.read_bytes()))

    def load(self, split: str, task_id: str) -> GameSource:
        """One game. Raises `EnvironmentDataError` where one of its two files is missing or damaged."""
        folder = self._root / split / task_id
        game = _parse(GameFile, folder / GAME_FILE)
        trajectory = _parse(TrajectoryFile, folder / TRAJECTORY_FILE)
        return GameSource(
            task_id=task_id,
            task_type=trajectory.task_type,
            domain=game.pddl_domain,
            grammar=game.grammar,
            problem=game.pddl_problem,
            goal=goal_in_grammar(game.grammar),
            human_goals=tuple(annotation.task_desc for annotation in trajectory.turk_annotations.anns),
            walkthrough=tuple(game.walkthrough or ()),
        )

    def _games(self) -> Iterator[tuple[str, str]]:
        """(split, task id) of every folder with both files, but for the kinds of task that ALFWorld leaves out."""
        for split in split_folders(self._root):
            for task in _folders(self._root / split):
                if "movable" in task or "Sliced" in task:
                    continue
                for trial in _folders(self._root / split / task):
                    folder = self._root / split / task / trial
                    if (folder / GAME_FILE).is_file() and (folder / TRAJECTORY_FILE).is_file():
                        yield split, f"{task}/{trial}"

    def _hash(self, game: tuple[str, str]) -> tuple[str, str, str] | None:
        """(split, task id, sha256 of both files), or None for a game that is known to be unsolvable."""
        split, task_id = game
        content = (self._root / split / task_id / GAME_FILE).read_bytes()
        if not SOLVABLE.search(content):
            return None
        sha = hashlib.sha256(content)
        sha.update((self._root / split / task_id / TRAJECTORY_FILE).read_bytes())
        return split, task_id, sha.hexdigest()


def split_folders(root: Path) -> list[str]:
    """The splits that a folder holds, in their usual order; empty for a folder that is no dataset."""
    return [split for split in SPLIT_ORDER if (root / split).is_dir()]


def _folders(path: Path) -> list[str]:
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _parse(model: type[ModelT], path: Path) -> ModelT:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise EnvironmentDataError(
            f"{path} is missing or damaged ({error}): run `gagpo data alfworld` again, or remove its folder"
        ) from error
