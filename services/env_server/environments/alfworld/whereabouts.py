"""Where things usually are: what a person who knows homes would guess, counted from games.

``whereabouts.json`` was counted by `count_whereabouts` over the first states of the 3,553 official training games.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files

from services.env_server.environments.alfworld.game import kind_of
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.pddl import parse_problem

Rates = Mapping[str, Mapping[str, float]]
"""Kind of object → kind of receptacle → share."""

_LEAST = 0.004
"""Rates below this are left out."""


@lru_cache(maxsize=1)
def whereabouts() -> Rates:
    """Kind of object → kind of receptacle → share of such receptacles that hold one at first.

    Only receptacles of rooms that have such an object at all are counted.
    """
    rates: dict[str, dict[str, float]] = json.loads(files(__package__).joinpath("whereabouts.json").read_text("utf-8"))
    return rates


def count_whereabouts(sources: Iterable[GameSource]) -> dict[str, dict[str, float]]:
    """The table that `whereabouts` reads, counted anew."""
    holding: Counter[tuple[str, str]] = Counter()
    present: Counter[tuple[str, str]] = Counter()
    for source in sources:
        init = parse_problem(source.problem).init
        receptacles = Counter(kind_of(r) for r in {fact[1] for fact in init if fact[0] == "receptacleatlocation"})
        places: dict[str, set[str]] = defaultdict(set)
        for fact in init:
            if fact[0] == "inreceptacle":
                places[kind_of(fact[1]) or fact[1]].add(fact[2])
        for thing, holders in places.items():
            for kind, count in receptacles.items():
                present[thing, kind or ""] += count
            for holder in holders:
                holding[thing, kind_of(holder) or ""] += 1
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for (thing, receptacle), count in sorted(holding.items()):
        rate = count / present[thing, receptacle]
        if rate >= _LEAST:
            table[thing][receptacle] = round(rate, 3)
    return dict(table)
