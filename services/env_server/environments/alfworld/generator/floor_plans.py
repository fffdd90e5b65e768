"""The real floor plans that the ``alfworld`` package ships, as receptacles with places and kinds of things."""

import json
from dataclasses import dataclass
from functools import cache

from services.env_server.environments.alfworld.generator.facts import OPENABLE, STANDARD_FITTINGS, load_facts
from services.env_server.environments.alfworld.generator.spec import ROOMS
from services.env_server.environments.alfworld.package_files import alfworld_folder

GRID = 0.25
"""Metres per step of the simulator's navigation grid; the locations in PDDL count these steps."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A piece of furniture that holds things."""

    id: str
    """The simulator's id, such as ``Cabinet|+00.68|+00.50|-02.20``."""
    kind: str
    location: str
    """The PDDL name of the place from which it is reached; neighbours may share one."""

    @property
    def openable(self) -> bool:
        """Whether it has a door or is a drawer."""
        return self.kind in OPENABLE


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """One real room."""

    number: int
    room: str
    receptacles: tuple[Receptacle, ...]
    things: tuple[str, ...]
    """The kinds of things that lie around in this room, sorted."""
    start: str
    """The PDDL location in the middle of the room, where no furniture is."""


@cache
def floor_plan(number: int) -> FloorPlan:
    """Floor plan ``number`` of the simulator."""
    folder = alfworld_folder() / "gen" / "layouts"
    places: dict[str, list[float]] = json.loads((folder / f"FloorPlan{number}-openable.json").read_text("utf-8"))
    kinds: set[str] = set(json.loads((folder / f"FloorPlan{number}-objects.json").read_text("utf-8")))
    holds = load_facts().holds
    receptacles = [
        Receptacle(id_, kind, location_name(*place))
        for id_, place in sorted(places.items())
        if (kind := _receptacle_kind(id_)) in holds
    ]
    present = {receptacle.kind for receptacle in receptacles}
    for row, kind in enumerate(sorted(kinds & STANDARD_FITTINGS.keys() - present)):
        # The plan names these without saying where they are, so they stand in rows along a wall of their own.
        for column in range(STANDARD_FITTINGS[kind]):
            x, z = 4.0 + GRID * column, 4.0 + GRID * row
            receptacles.append(Receptacle(object_id(kind, x, 0.9, z), kind, location_name(x, z - 1.0, 0, 30)))
    used = {receptacle.location for receptacle in receptacles}
    start = next(name for step in range(400) if (name := location_name(GRID * step, 0, 1, 30)) not in used)
    return FloorPlan(
        number,
        next(room for room, numbers in ROOMS.items() if number in numbers),
        tuple(receptacles),
        tuple(sorted(kinds & (frozenset().union(*holds.values()) | {"DeskLamp"}))),
        start,
    )


def _receptacle_kind(id_: str) -> str:
    """``Sink|…|SinkBasin`` is a SinkBasin; one plan's bathtub that claims to be a sink is left out."""
    parts = id_.split("|")
    if len(parts) == 4:
        return parts[0]
    return parts[4] if parts[4] == f"{parts[0]}Basin" else ""


def object_id(kind: str, x: float, y: float, z: float) -> str:
    """A simulator id from a position in metres, such as ``Mug|+01.84|+00.89|-03.24``."""
    return "|".join((kind, *(f"{round(value, 2) + 0.0:+06.2f}" for value in (x, y, z))))


def location_name(x: float, z: float, rotation: float, horizon: float) -> str:
    """The PDDL name of a place: x and z in metres, rotation and horizon in degrees."""
    steps = (round(x / GRID), round(z / GRID), round(rotation / 90), round(horizon))
    return pddl_name("|".join(("loc", *(str(step) for step in steps))))


def pddl_name(id_: str) -> str:
    """A simulator id in PDDL's letters; ``|``, signs and points become words."""
    return id_.replace("|", "_bar_").replace("+", "_plus_").replace("-", "_minus_").replace(".", "_dot_")
