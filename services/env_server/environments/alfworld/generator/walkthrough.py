"""Solves a furnished room: everything's place is known here, so the commands follow from the goal."""

from collections import defaultdict

from services.env_server.environments.alfworld.generator.facts import LAMP
from services.env_server.environments.alfworld.generator.floor_plans import Receptacle, pddl_name
from services.env_server.environments.alfworld.generator.furnish import Room, Thing

VERB = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}


def instance_names(room: Room) -> dict[str, str]:
    """The names that the game gives to ids, such as ``mug 2``.

    ALFWorld sorts the lower-case PDDL names and counts down within each kind; ``sink…basin`` is a sinkbasin.
    """
    by_kind: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for id_ in (*(r.id for r in room.receptacles), *(thing.id for thing in room.things)):
        name = pddl_name(id_).lower()
        kind = name.split("_bar_", 1)[0] + ("basin" if "basin" in name else "")
        by_kind[kind].append((name, id_))
    return {
        id_: f"{kind} {number}"
        for kind, ids in by_kind.items()
        for number, (_, id_) in enumerate(sorted(ids, reverse=True), start=1)
    }


def solve(room: Room) -> list[str]:
    """A winning list of commands."""
    walker = _Walker(room)
    goal = room.goal
    if goal.needs_lamp:
        lamp = next(thing for thing in room.things if thing.kind == LAMP)
        walker.take(walker.nearest_wanted())
        walker.go_to(lamp.receptacle)
        walker.commands.append(f"use {walker.names[lamp.id]}")
        return walker.commands
    for _ in range(goal.wanted):
        thing = walker.nearest_wanted()
        walker.take(thing)
        if goal.appliance:
            appliance = next(r for r in room.receptacles if r.kind == goal.appliance)
            walker.go_to(appliance)
            walker.commands.append(f"{VERB[goal.task_type]} {walker.names[thing.id]} with {walker.names[appliance.id]}")
        walker.put(thing)
    return walker.commands


class _Walker:
    """Keeps what the commands so far have changed: where the agent stands, what is open, what was moved."""

    def __init__(self, room: Room) -> None:
        self.names = instance_names(room)
        self.commands: list[str] = []
        self._room = room
        self._location = room.plan.start
        self._open: set[str] = set()
        self._moved: set[str] = set()
        targets = [r for r in room.receptacles if r.kind == room.goal.target]
        # Two things must end in the same receptacle, so the target is chosen once.
        self._target = min(targets, key=lambda r: (r.openable, r.id)) if targets else None

    def nearest_wanted(self) -> Thing:
        """The wanted thing that is easiest to get; one at its destination only where no other is left."""
        wanted = [t for t in self._room.things if t.kind == self._room.goal.thing and t.id not in self._moved]
        return min(wanted, key=lambda t: (t.receptacle is self._target, self._is_shut(t.receptacle), t.id))

    def go_to(self, receptacle: Receptacle) -> None:
        """Stand in front of a receptacle; no command where the agent stands there already."""
        if self._location != receptacle.location:
            self._location = receptacle.location
            self.commands.append(f"go to {self.names[receptacle.id]}")

    def take(self, thing: Thing) -> None:
        """Go to a thing and take it, opening what it is in."""
        self._reach(thing.receptacle)
        self.commands.append(f"take {self.names[thing.id]} from {self.names[thing.receptacle.id]}")
        self._moved.add(thing.id)

    def put(self, thing: Thing) -> None:
        """Bring what is held to the target and put it there."""
        assert self._target is not None
        self._reach(self._target)
        self.commands.append(f"move {self.names[thing.id]} to {self.names[self._target.id]}")

    def _reach(self, receptacle: Receptacle) -> None:
        self.go_to(receptacle)
        if self._is_shut(receptacle):
            self._open.add(receptacle.id)
            self.commands.append(f"open {self.names[receptacle.id]}")

    def _is_shut(self, receptacle: Receptacle) -> bool:
        return receptacle.openable and receptacle.id not in self._open
