"""Places things in a room for a goal: first what the goal needs, then look-alikes, then what usually lies around."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from services.env_server.environments.alfworld.generator.facts import (
    LAMP,
    LAMP_HOLDERS,
    MAX_OF_A_KIND,
    TYPICAL_LOAD,
    load_facts,
    look_alikes,
)
from services.env_server.environments.alfworld.generator.floor_plans import FloorPlan, Receptacle, object_id
from services.env_server.environments.alfworld.generator.goals import Goal
from services.env_server.environments.alfworld.generator.spec import Difficulty, Span

REACH = 0.3
"""Metres around a receptacle's centre over which the ids of the things in it are spread."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that lies in or on a receptacle."""

    id: str
    kind: str
    receptacle: Receptacle


@dataclass(frozen=True, slots=True)
class Room:
    """A furnished room with a goal: one game, before it is written."""

    plan: FloorPlan
    goal: Goal
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two games exactly when room, goal and placement are equal."""
        placement = sorted((thing.kind, thing.receptacle.id) for thing in self.things)
        return (self.plan.number, self.goal, tuple(r.id for r in self.receptacles), tuple(placement))


def furnish(plan: FloorPlan, goal: Goal, difficulty: Difficulty, rng: random.Random) -> Room:
    """A room of the wanted difficulty in which the goal can be reached and is not reached yet."""
    receptacles = _choose_receptacles(plan, goal, difficulty, rng)
    placer = _Placer(receptacles, rng)
    away_from_target = [r for r in receptacles if r.kind != goal.target]
    for _ in range(goal.wanted):
        placer.place(goal.thing, away_from_target)
    for _ in range(_draw(rng, difficulty.spare_targets)):
        placer.place(goal.thing, away_from_target if goal.ends_with_placing else receptacles)
    if LAMP in plan.things:
        placer.place(LAMP, [r for r in receptacles if r.kind in LAMP_HOLDERS])

    total = _draw(rng, difficulty.objects)
    confusing = [kind for kind in look_alikes(goal.thing) if kind in plan.things]
    distractors = _draw(rng, difficulty.distractors)
    placer.fill(confusing, min(total, placer.count + distractors))
    placer.fill([kind for kind in plan.things if kind not in (LAMP, goal.thing)], total)
    return Room(plan, goal, receptacles, tuple(sorted(placer.things, key=lambda thing: thing.id)))


def _draw(rng: random.Random, span: Span) -> int:
    return rng.randint(span.low, span.high)


def _choose_receptacles(
    plan: FloorPlan, goal: Goal, difficulty: Difficulty, rng: random.Random
) -> tuple[Receptacle, ...]:
    """What the goal needs, and then as many kinds as possible before a second one of a kind."""
    size = difficulty.receptacles
    if size is None:
        return plan.receptacles
    holds = load_facts().holds
    needed: list[Receptacle] = []
    for kind in (goal.target, goal.appliance):
        if kind:
            needed.append(rng.choice([r for r in plan.receptacles if r.kind == kind]))
    if goal.needs_lamp:
        needed.append(_weighted([r for r in plan.receptacles if r.kind in LAMP_HOLDERS], Counter(), rng))
    if not any(r.kind != goal.target and goal.thing in holds[r.kind] for r in needed):
        homes = [r for r in plan.receptacles if r.kind != goal.target and goal.thing in holds[r.kind]]
        needed.append(_weighted(homes, Counter(), rng))
    rest = [r for r in plan.receptacles if r not in needed]
    rng.shuffle(rest)
    kinds = Counter(r.kind for r in needed)
    for _ in range(min(_draw(rng, size) - len(needed), len(rest))):
        extra = min(rest, key=lambda r: kinds[r.kind])
        rest.remove(extra)
        needed.append(extra)
        kinds[extra.kind] += 1
    return tuple(r for r in plan.receptacles if r in needed)


def _weighted(choices: list[Receptacle], load: Counter[str], rng: random.Random) -> Receptacle:
    """A receptacle, likelier the more it usually holds and the less it holds now."""
    weights = [TYPICAL_LOAD.get(r.kind, 1.0) / (1 + load[r.id]) for r in choices]
    return rng.choices(choices, weights)[0]


class _Placer:
    """Puts things where their kind belongs, each with an id of its own."""

    def __init__(self, receptacles: Iterable[Receptacle], rng: random.Random) -> None:
        self._receptacles = tuple(receptacles)
        self._rng = rng
        self._load: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._ids: set[str] = set()
        self.things: list[Thing] = []

    @property
    def count(self) -> int:
        """How many things have been placed, lamps not counted."""
        return len(self.things) - self._kinds[LAMP]

    def place(self, kind: str, receptacles: Iterable[Receptacle]) -> None:
        """One more thing of a kind in one of the receptacles that may hold it; nothing where none may."""
        holds = load_facts().holds
        choices = [r for r in receptacles if kind == LAMP or kind in holds[r.kind]]
        if not choices:
            return
        home = _weighted(choices, self._load, self._rng)
        id_ = self._free_id(kind, home)
        self._ids.add(id_)
        self._load[home.id] += 1
        self._kinds[kind] += 1
        self.things.append(Thing(id_, kind, home))

    def fill(self, kinds: list[str], total: int) -> None:
        """Things of random kinds until there are ``total`` in the room, or no kind has room left."""
        holds = load_facts().holds
        fit = sorted(kind for kind in kinds if any(kind in holds[r.kind] for r in self._receptacles))
        while self.count < total and (open_kinds := [kind for kind in fit if self._kinds[kind] < MAX_OF_A_KIND]):
            self.place(self._rng.choice(open_kinds), self._receptacles)

    def _free_id(self, kind: str, home: Receptacle) -> str:
        x, y, z = (float(part) for part in home.id.split("|")[1:4])
        while True:
            dx, dz = self._rng.uniform(-REACH, REACH), self._rng.uniform(-REACH, REACH)
            if (id_ := object_id(kind, x + dx, y, z + dz)) not in self._ids:
                return id_
