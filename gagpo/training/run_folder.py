"""The folder of a run: one place for its recipe, logs, checkpoints, metrics and reports."""

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shared.recipe import Recipe, RecipeError, load_recipe, save_recipe


class RunFolderError(Exception):
    """The folder cannot be used for this run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where the parts of a run lie."""

    path: Path

    @property
    def job(self) -> str:
        """The run's id, which is also its job's id in Redis."""
        return self.path.name

    @property
    def recipe(self) -> Path:
        """The recipe with every default spelled out."""
        return self.path / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """One JSON object for each training step."""
        return self.path / "metrics.jsonl"

    @property
    def before(self) -> Path:
        """Report of the evaluation before training."""
        return self.path / "evaluation-before.json"

    @property
    def after(self) -> Path:
        """Report of the evaluation after training."""
        return self.path / "evaluation-after.json"

    @property
    def summary(self) -> Path:
        """What came of the run; it exists once the run is complete."""
        return self.path / "summary.json"

    @property
    def curve(self) -> Path:
        """The learning curve."""
        return self.path / "learning-curve.png"

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to do."""
        return self.summary.exists()

    def lock(self) -> IO[str]:
        """Hold the folder while the returned file is open. Raises `RunFolderError` when somebody else does."""
        file = (self.path / "run.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise RunFolderError(f"{self.path} is being trained by another process; stop that one first") from error
        return file


def claim_run_folder(recipe: Recipe, root: Path, name: str | None = None) -> RunFolder:
    """The folder to train a recipe in: the unfinished run of the same recipe and seed, else a new one.

    Without a ``name``, ``<root>/<recipe>-s<seed>`` is taken, or the first of ``…-2``, ``…-3`` that is not complete.
    Raises `RunFolderError` where the folder holds another recipe.
    """
    wanted = [name] if name is not None else _names(recipe)
    for candidate in wanted:
        folder = RunFolder((root / candidate).resolve())
        if name is None and (folder.complete or not _same_recipe(folder, recipe)):
            continue
        if not _same_recipe(folder, recipe):
            raise RunFolderError(
                f"{folder.path} was begun with another recipe; give the run another name with --run, "
                f"or train what it was begun with: gagpo train {folder.recipe} --run {candidate}"
            )
        folder.path.mkdir(parents=True, exist_ok=True)
        if not folder.recipe.exists():
            save_recipe(recipe, folder.recipe)
        return folder
    raise RunFolderError(f"{root} holds {len(wanted)} runs of {recipe.name}; remove some, or name this one with --run")


def _names(recipe: Recipe) -> list[str]:
    first = f"{recipe.name}-s{recipe.seed}"
    return [first, *(f"{first}-{number}" for number in range(2, 1000))]


def _same_recipe(folder: RunFolder, recipe: Recipe) -> bool:
    if not folder.recipe.exists():
        return True
    try:
        return load_recipe(folder.recipe) == recipe
    except RecipeError:  # begun by a release that knew other keys: not this run, whatever it was
        return False
