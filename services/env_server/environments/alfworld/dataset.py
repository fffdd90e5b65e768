"""Finds ALFWorld's games wherever they are, and opens one at a time.

`open_dataset` takes what ``ALFWORLD_DATA`` points to: the official release (its folder, its parent, or one of its
splits), a folder of our generator, or packed files. `open_default` is for no data at all: it generates a dataset once.
Nothing here imports TextWorld.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from services.env_server.environments.alfworld.dataset_index import SPLIT_ORDER, Layout
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.official_layout import OfficialLayout, split_folders
from services.env_server.environments.alfworld.packed_layout import SUFFIX, PackedLayout
from services.env_server.environments.base import EnvironmentDataError, UnknownSplitError, UnknownTaskError
from shared.files import cache_folder, locked

REMEDY = (
    "`gagpo data alfworld` downloads the official games, `gagpo data generate alfworld --out DIR` makes new ones; "
    "then set ALFWORLD_DATA to the folder, or leave it unset to play generated games"
)
DEFAULT_TASKS = 1000


class AlfworldDataset:
    """All games of one folder."""

    def __init__(self, root: Path, layout: Layout) -> None:
        """Use `open_dataset` or `open_default`. Raises `EnvironmentDataError` where there is no playable game."""
        index = layout.index()
        if not index.splits:
            raise EnvironmentDataError(
                f"{root} holds no playable game (<split>/<task>/<trial>/ with both game.tw-pddl and traj_data.json): "
                f"{REMEDY}"
            )
        self.root = root
        self.kind = layout.name
        """``official``, ``generated`` or ``packed``."""
        self.splits: Mapping[str, tuple[str, ...]] = index.splits
        """Task ids ``<task>/<trial>`` by split, in the same order on any machine; any first N are a fair sample."""
        self.digest = index.digest
        """sha256 over all task data; equal on any machine exactly when the data is equal."""
        self._layout = layout
        self._split_of = {task_id: split for split, ids in index.splits.items() for task_id in ids}

    def tasks(self, split: str) -> tuple[str, ...]:
        """The task ids of a split. Raises `UnknownSplitError`."""
        if split not in self.splits:
            raise UnknownSplitError(f"ALFWorld has no split {split!r}; there are {', '.join(self.splits)}")
        return self.splits[split]

    def load(self, task_id: str) -> GameSource:
        """The game of a task. Raises `UnknownTaskError`, or `EnvironmentDataError` where its data is damaged."""
        split = self._split_of.get(task_id)
        if split is None:
            raise UnknownTaskError(
                f"ALFWorld has no task {task_id!r} in {self.root}; GET /v1/environments/alfworld/tasks lists them"
            )
        return self._layout.load(split, task_id)


def open_dataset(path: Path | str) -> AlfworldDataset:
    """The dataset at ``path``. Raises `EnvironmentDataError` that says what was looked for and what to do.

    ``path`` may be the official release's folder ``json_2.1.1``, its parent, one of its splits (the dataset is then the
    whole release), a folder with packed ``<split>.jsonl.xz`` files, one such file, or a folder that holds any of these
    as ``alfworld``.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise EnvironmentDataError(f"ALFWORLD_DATA: {path} does not exist: {REMEDY}")
    if path.is_file() and path.name.endswith(SUFFIX):
        return AlfworldDataset(path, PackedLayout([path]))
    for folder in (path, path / "json_2.1.1", path / "alfworld", path / "alfworld" / "json_2.1.1"):
        if split_folders(folder):
            return AlfworldDataset(folder, OfficialLayout(folder, _official_or_generated(folder)))
        packed = [file for split in SPLIT_ORDER if (file := folder / f"{split}{SUFFIX}").is_file()]
        if packed:
            return AlfworldDataset(folder, PackedLayout(packed))
    if path.name in SPLIT_ORDER:
        return AlfworldDataset(path.parent, OfficialLayout(path.parent, _official_or_generated(path.parent)))
    raise EnvironmentDataError(
        f"ALFWORLD_DATA: {path} holds neither split folders ({', '.join(SPLIT_ORDER)}) nor packed files "
        f"(train{SUFFIX} and the like), and no json_2.1.1 with them: {REMEDY}"
    )


def open_default() -> AlfworldDataset:
    """The dataset for no data at all: generated into the user's cache on first use (seconds), then found there.

    Several processes may call this at once: one generates, the others wait.
    """
    from services.env_server.environments.alfworld.generator.spec import GENERATOR_VERSION, make_spec
    from services.env_server.environments.alfworld.generator.write import generate_dataset

    folder = cache_folder("alfworld") / f"default-v{GENERATOR_VERSION}"
    with locked(folder):
        generate_dataset(make_spec(DEFAULT_TASKS, seed=0, valid_seen=140, valid_unseen=140), folder)
    return open_dataset(folder)


def open_configured() -> AlfworldDataset:
    """What ``ALFWORLD_DATA`` points to, or the default dataset where it is not set.

    Importing the ``alfworld`` package sets the variable to a folder of its own, which is empty unless its downloader
    was used; that counts as not set.
    """
    configured = os.environ.get("ALFWORLD_DATA")
    package_default = Path.home() / ".cache" / "alfworld"
    if not configured or (Path(configured) == package_default and not (package_default / "json_2.1.1").exists()):
        return open_default()
    return open_dataset(configured)


def _official_or_generated(folder: Path) -> str:
    return "generated" if any((place / "generated.json").is_file() for place in (folder, folder.parent)) else "official"
