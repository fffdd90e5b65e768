"""The recorded WebShop, for tests: its world, and the episodes that the original played in it."""

import json
import lzma
from functools import lru_cache
from typing import Any

from services.env_server.environments.webshop.catalogue.open import open_path
from services.env_server.environments.webshop.goal import Goal, GoalKind
from services.env_server.environments.webshop.world import World
from tests.data_paths import real_data


@lru_cache(maxsize=1)
def recorded_world() -> World:
    """The thousand products with the recorded prices and goals; skips the calling test where they are not there."""
    return open_path(real_data("webshop"))


@lru_cache(maxsize=1)
def recorded_episodes() -> list[dict[str, Any]]:
    """All recorded episodes; ``GOLDENS.md`` beside them says what is in one."""
    with lzma.open(real_data("webshop/goldens/episode_goldens.jsonl.xz")) as lines:
        return [json.loads(line) for line in lines]


def recorded_goal(episode: dict[str, Any], index: int | None = None) -> Goal:
    """The goal of an episode, or another of the same kind."""
    goals = recorded_world().goals(GoalKind(episode["goal_set"]))
    return goals.goal(episode["goal_idx"] if index is None else index)
