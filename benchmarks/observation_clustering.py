"""What joining similar observations into one state finds and what it mixes up, against the true states.

``python -m benchmarks.observation_clustering [--environment alfworld|webshop] [--groups 24] [--json FILE]``

Groups of 8 random walks of 15 steps over admissible actions. For each threshold, and for equal observations and true
states beside them: how many states there are, the share of steps that have a sibling in another episode, the share
that is put together with a step from another true state, and the time that grouping takes.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from services.env_server.environments.alfworld.environment import AlfworldFamily
from services.env_server.environments.base import Environment, EnvironmentFamily
from services.env_server.environments.webshop.environment import WebshopFamily
from services.trainer.algorithms.base import CreditEpisode, CreditGroup
from services.trainer.algorithms.diagnostics import diagnose
from services.trainer.algorithms.gagpo import Gagpo
from shared.recipe import GagpoSettings
from shared.schemas.environment import StateKeyKind

GROUP = 8
STEPS = 15
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
FAMILIES = {"alfworld": AlfworldFamily, "webshop": WebshopFamily}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one way of grouping found."""

    grouping: str
    states: int
    sibling_share: float
    hidden_state_share: float
    seconds: float


def walk(environment: Environment, kind: StateKeyKind, rng: random.Random) -> CreditEpisode:
    """A random walk; one that has ended ends the episode."""
    seen = environment.reset()
    texts: list[str] = []
    keys: list[str] = []
    truths: list[str] = []
    ended = False
    while not ended and len(texts) < STEPS:
        texts.append(seen.text)
        keys.append(environment.state_key(kind))
        truths.append(environment.state_key(StateKeyKind.SIMULATOR))
        outcome = environment.step(rng.choice(list(seen.admissible_actions)))
        seen, ended = outcome.observation, outcome.terminated
    return CreditEpisode([0.0] * len(texts), keys, environment.state_key(kind), ended, texts, seen.text, truths)


def groups_of(family: EnvironmentFamily, kind: StateKeyKind, tasks: Sequence[str]) -> list[CreditGroup]:
    """A group of random walks for each task, the same ones for every kind of key."""
    rng = random.Random(0)
    return [
        CreditGroup(task, [walk(family.open(task, {}), kind, random.Random(rng.random())) for _ in range(GROUP)])
        for task in tasks
    ]


def find(grouping: str, groups: Sequence[CreditGroup], similarity: float | None) -> Finding:
    """Group the steps, and hold the states against the true ones."""
    algorithm = Gagpo(GagpoSettings(similarity=similarity), min_std=0.5)
    begin = time.perf_counter()
    credits = algorithm.credit(groups)
    seconds = time.perf_counter() - begin
    found = diagnose(credits, [True] * len(credits))
    states = sum(len(np.unique(credit.states)) for credit in credits)
    return Finding(grouping, states, found.sibling_share, found.hidden_state_share, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures as JSON where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--environment", choices=sorted(FAMILIES), default="alfworld", help="with its usual data")
    parser.add_argument("--split", help="split of the tasks (default: the environment's first)")
    parser.add_argument("--groups", type=int, default=24, help="how many tasks, one group each")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(arguments)
    family: EnvironmentFamily = FAMILIES[given.environment]()
    every = family.tasks(given.split or next(iter(family.describe().splits)))
    tasks = [every[i * len(every) // given.groups] for i in range(min(given.groups, len(every)))]
    by_text = groups_of(family, StateKeyKind.OBSERVATION, tasks)
    findings = [find("true states", groups_of(family, StateKeyKind.SIMULATOR, tasks), None)]
    findings.append(find("equal observations", by_text, None))
    find("", by_text[:1], THRESHOLDS[0])  # scikit-learn is imported by its first use
    findings += [find(f"similarity {threshold}", by_text, threshold) for threshold in reversed(THRESHOLDS)]
    print(f"{'':<20}{'states':>8}{'siblings':>10}{'mixed up':>10}{'seconds':>9}")
    for one in findings:
        shares = f"{one.sibling_share:>10.1%}{one.hidden_state_share:>10.1%}"
        print(f"{one.grouping:<20}{one.states:>8}{shares}{one.seconds:>9.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in findings], indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
