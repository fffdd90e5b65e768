"""The folder of a run: one place for its recipe, logs, checkpoints, metrics and reports."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shared.files import try_lock
from shared.recipe import Recipe, RecipeError, load_recipe, save_recipe
from shared.run_layout import RunFiles


class RunFolderError(Exception):
    """The folder cannot be used for this run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RunFolder(RunFiles):
    """Where the parts of a run lie."""

    @property
    def before(self) -> Path:
        """Report of the evaluation before training."""
        return self.evaluation("before")

    @property
    def after(self) -> Path:
        """Report of the evaluation after training."""
        return self.evaluation("after")

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
        file = self.lock_file.open("w")
        if not try_lock(file):
            file.close()
            raise RunFolderError(f"{self.path} is being trained by another process; stop that one first")
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
