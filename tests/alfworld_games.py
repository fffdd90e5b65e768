"""ALFWorld games and recordings for the tests."""

import json
import lzma
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from services.env_server.environments.alfworld.dataset import AlfworldDataset, open_dataset
from services.env_server.environments.alfworld.game_source import GameSource
from tests.data_paths import real_data

GIBBERISH = (
    "",
    "   ",
    "dance",
    "go to",
    "go to moon 1",
    "take",
    "LOOK",
    "Inventory",
    "look around",
    "examine",
    "open",
    "\t",
)


@lru_cache(maxsize=1)
def dataset() -> AlfworldDataset:
    """The real games; skips the calling test where they are not."""
    return open_dataset(real_data("alfworld"))


def json_lines(name: str) -> Iterator[dict[str, Any]]:
    """The records of a packed file of the real data."""
    with lzma.open(real_data(f"alfworld/{name}"), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def old_release_games() -> list[GameSource]:
    """The games of the older release."""
    games = []
    for record in json_lines("old_release_games.jsonl.xz"):
        game = record["game"]
        goal = game["grammar"].split("Your task is to: ")[1].split('."')[0]
        games.append(
            GameSource(
                record["id"],
                record["task_type"],
                game["pddl_domain"],
                game["grammar"],
                game["pddl_problem"],
                goal,
                (),
                (),
            )
        )
    return games


def odd_command(rng: random.Random, admissible: Sequence[str]) -> str:
    """A command that is nearly always wrong, in one of the ways in which a policy gets it wrong."""
    some = rng.choice(admissible)
    ways = (
        rng.choice(GIBBERISH),
        some.upper(),
        some.capitalize(),
        some.replace(" ", "  "),
        f"{some}.",
        some[:-1],
        some.replace("1", "9"),
        some.replace("go to", "take"),
        f"  {some}\n",
    )
    return rng.choice(ways)
