"""The tasks of a local run: the ones a data folder holds, or ones that are generated as the recipe says."""

import hashlib
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from gagpo.commands.data import module_of
from shared.files import cache_folder, locked
from shared.recipe import Recipe

_DEADLINE_S = 600.0


class TaskDataError(Exception):
    """Tasks could not be generated; the message is the generator's own."""


def data_folders(recipe: Recipe) -> dict[str, str]:
    """Variables for the env server: where the tasks are that the recipe generates for itself.

    A folder that the user set (``ALFWORLD_DATA``) wins. Raises `TaskDataError`.
    """
    folders = {}
    for environment in recipe.environments:
        variable = f"{environment.name.upper()}_DATA"
        if environment.generate is not None and not os.environ.get(variable):
            folders[variable] = str(_generated(environment.name, environment.generate))
    return folders


def _generated(environment: str, arguments: list[str]) -> Path:
    """Equal arguments share one folder, made once for all runs of a release: another may have another generator."""
    digest = hashlib.sha256("\0".join([version("gagpo"), *arguments]).encode()).hexdigest()[:12]
    folder = cache_folder("generated") / f"{environment}-{digest}"
    with locked(folder):
        if not folder.exists():
            _generate(environment, arguments, folder)
    return folder


def _generate(environment: str, arguments: list[str], folder: Path) -> None:
    module = module_of(environment)
    argv = [sys.executable, "-m", module, "generate", *arguments, "--out", str(folder)]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=_DEADLINE_S, check=False)
    if done.returncode != 0:
        raise TaskDataError(f"gagpo data generate {environment} {' '.join(arguments)}:\n{done.stderr.strip()}")
