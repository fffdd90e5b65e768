"""How fast the native ALFWorld engine is, and how much faster than stock TextWorld, measured in the same run.

``python -m benchmarks.alfworld_engine [--data FOLDER] [--games 24] [--json FILE]``

A step is everything that a server does for one in process: a random admissible command, the observation's text, the
list of admissible commands, the outcome and the state key. `fresh` steps are the first ones ever taken in a game
(8 episodes of 50 steps after compiling it, as a training group takes them); `warm` steps come later.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.env_server.environments.alfworld.dataset import open_configured, open_dataset
from services.env_server.environments.alfworld.environment import AlfworldEnvironment, AlfworldFamily
from services.env_server.environments.alfworld.textworld_engine import TextworldEpisode
from services.env_server.environments.base import EnvironmentDataError
from shared.schemas.environment import StateKeyKind

GROUP = 8
STEPS = 50


@contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Append how many seconds the block takes."""
    begin = time.perf_counter()
    yield
    into.append(time.perf_counter() - begin)


def walk(environment: AlfworldEnvironment, rng: random.Random, steps: int = STEPS) -> None:
    """Random admissible commands, starting anew when the game is won."""
    admissible = environment.reset().admissible_actions
    for _ in range(steps):
        outcome = environment.step(admissible[int(rng.random() * len(admissible))])
        environment.state_key(StateKeyKind.OBSERVATION)
        admissible = (
            environment.reset().admissible_actions if outcome.terminated else outcome.observation.admissible_actions
        )


def open_group(family: AlfworldFamily, task_id: str, size: int) -> list[AlfworldEnvironment]:
    """A group as the server opens it: one load, then clones."""
    first = family.open(task_id, {})
    first.reset()
    return [first, *(first.clone() for _ in range(size - 1))]


def measure_native(family: AlfworldFamily, tasks: Sequence[str], repeats: int) -> dict[str, float]:
    """Medians over games for opening; steps a second over all games."""
    rng = random.Random(0)
    one: list[float] = []
    group: list[float] = []
    clones: list[float] = []
    rounds: list[float] = []
    groups = []
    for task_id in tasks:
        for size, times in ((1, one), (GROUP, group)):
            fresh = AlfworldFamily(family.dataset)
            with timed(times):
                open_group(fresh, task_id, size)
        groups.append(open_group(family, task_id, GROUP))
        with timed(clones):
            for _ in range(1000):
                groups[-1][0].clone()
    for _ in range(repeats + 1):
        with timed(rounds):
            for members in groups:
                for environment in members:
                    walk(environment, rng)
    steps = len(tasks) * GROUP * STEPS
    return {
        "open one session, ms": statistics.median(one) * 1e3,
        "open a group of 8, ms": statistics.median(group) * 1e3,
        "group of 8 / one session": statistics.median(b / a for a, b in zip(one, group, strict=True)),
        "clone, us": statistics.median(clones) * 1e3,
        "fresh steps/s": steps / rounds[0],
        "warm steps/s": steps / min(rounds[1:]),
    }


def measure_stock(family: AlfworldFamily, tasks: Sequence[str], steps: int) -> dict[str, float]:
    """Means over games."""
    rng = random.Random(0)
    load: list[float] = []
    reset: list[float] = []
    step: list[float] = []
    for task_id in tasks:
        source = family.dataset.load(task_id)
        with timed(load):
            episode = TextworldEpisode(source, source.goal)
        for _ in range(steps):
            command = rng.choice(list(episode.turn.admissible))
            with timed(step):
                episode.step(command)
        with timed(reset):
            episode.reset()
    return {
        "load and first reset, ms": statistics.mean(load) * 1e3,
        "reset, ms": statistics.mean(reset) * 1e3,
        "steps/s": 1 / statistics.mean(step),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures as JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="games (default: ALFWORLD_DATA, else generated ones)")
    parser.add_argument("--games", type=int, default=24, help="how many games the native engine plays")
    parser.add_argument("--stock-games", type=int, default=3, help="how many games stock plays (0: none)")
    parser.add_argument("--stock-steps", type=int, default=30, help="how many steps stock takes in each")
    parser.add_argument("--repeats", type=int, default=4, help="rounds of warm walks")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    family = AlfworldFamily(open_configured() if given.data is None else open_dataset(given.data))
    split = "train" if "train" in family.dataset.splits else next(iter(family.dataset.splits))
    every = family.tasks(split)
    tasks = [every[i * len(every) // given.games] for i in range(min(given.games, len(every)))]
    figures = {"native": measure_native(family, tasks, given.repeats)}
    if given.stock_games:
        try:
            figures["stock"] = measure_stock(family, tasks[: given.stock_games], given.stock_steps)
        except EnvironmentDataError as error:
            print(f"stock TextWorld was left out: {error}", file=sys.stderr)
    if "stock" in figures:
        native, stock = figures["native"], figures["stock"]
        figures["native / stock"] = {
            "steps/s, fresh": native["fresh steps/s"] / stock["steps/s"],
            "steps/s, warm": native["warm steps/s"] / stock["steps/s"],
            "opening": stock["load and first reset, ms"] / native["open one session, ms"],
        }
    for name, values in figures.items():
        print(name)
        for what, value in values.items():
            print(f"  {what:<28}{value:>14,.2f}")
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
