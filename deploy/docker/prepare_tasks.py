"""Lays the env servers' tasks out under /data: those that were mounted under /given, else what the recipes generate.

``prepare_tasks.py RECIPE…`` makes /data/<environment> a link to the one or the other. Generated tasks are kept in
/data, so that the next start finds them.
"""

import hashlib
import logging
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from shared.recipe import load_recipe
from shared.telemetry import configure_logging

DATA = Path("/data")
GIVEN = Path("/given")
ENVIRONMENTS = ("alfworld", "webshop")

logger = logging.getLogger("prepare_tasks")


def main(recipes: list[str]) -> None:
    """Lay out the tasks of every environment. Of two recipes that generate the same one's, the first decides."""
    configure_logging("tasks")
    wanted: dict[str, list[str]] = {}
    for recipe in recipes:
        for environment in load_recipe(Path(recipe)).environments:
            if environment.generate is not None:
                wanted.setdefault(environment.name, environment.generate)
    for name in ENVIRONMENTS:
        given = GIVEN / name
        has_given = given.is_dir() and any(given.iterdir())
        point(DATA / name, given if has_given else generated(name, wanted[name]))


def generated(environment: str, arguments: list[str]) -> Path:
    """The folder of generated tasks; another release or other arguments have another one."""
    digest = hashlib.sha256("\0".join([version("gagpo"), *arguments]).encode()).hexdigest()[:12]
    folder = DATA / f"generated-{environment}-{digest}"
    if not folder.exists():
        module = f"services.env_server.environments.{environment}"
        subprocess.run([sys.executable, "-m", module, "generate", *arguments, "--out", str(folder)], check=True)
    return folder


def point(link: Path, target: Path) -> None:
    """Make ``link`` lead to ``target``."""
    logger.info("%s is %s", link, target)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


if __name__ == "__main__":
    main(sys.argv[1:])
