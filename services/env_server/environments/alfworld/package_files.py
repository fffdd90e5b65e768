"""The files that the installed ``alfworld`` package ships: the PDDL domain, the text grammar, the floor plans.

They are read from disk without importing the package, whose import creates folders and sets environment variables.
"""

import importlib.util
from functools import cache
from pathlib import Path

from services.env_server.environments.base import EnvironmentDataError

GOAL_PLACEHOLDER = "UNKNOWN GOAL"
"""What the package's grammar says where a game's grammar holds the goal sentence."""


@cache
def alfworld_folder() -> Path:
    """The folder of the installed ``alfworld`` package. Raises `EnvironmentDataError` where it is not installed."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentDataError(
            "the `alfworld` package is not installed, which ships the PDDL domain, the grammar and the floor plans: "
            "install it with `pip install --no-deps alfworld==0.4.2`, or the whole extra with `pip install gagpo[env]`"
        )
    return Path(spec.submodule_search_locations[0])


@cache
def read_domain() -> str:
    """The PDDL domain text, ``alfred.pddl``."""
    return _read("data/alfred.pddl")


@cache
def read_grammar_template() -> str:
    """The twl2 grammar text, ``alfred.twl2``, with `GOAL_PLACEHOLDER` where the goal goes."""
    return _read("data/alfred.twl2")


def grammar_for(goal: str) -> str:
    """The grammar of a game whose goal sentence is ``goal``."""
    return read_grammar_template().replace(GOAL_PLACEHOLDER, goal)


def _read(relative: str) -> str:
    path = alfworld_folder() / relative
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EnvironmentDataError(
            f"the installed alfworld package lacks {path}: "
            "reinstall it with `pip install --force-reinstall --no-deps alfworld==0.4.2`"
        ) from error
