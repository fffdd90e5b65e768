"""What is known of the things in a room: what holds what, what can be heated, how much usually lies where.

The first part is read from the installed ``alfworld`` package (its ``gen/constants.py`` imports nothing heavy); the
second is our own, measured on the official games.
"""

import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from services.env_server.environments.alfworld.package_files import alfworld_folder

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})

TYPICAL_LOAD = {
    "ArmChair": 1.0, "BathtubBasin": 1.3, "Bed": 4.2, "Cabinet": 0.5, "Cart": 3.0, "CoffeeMachine": 0.4,
    "CoffeeTable": 4.5, "CounterTop": 6.5, "Desk": 5.5, "DiningTable": 8.0, "Drawer": 0.6, "Dresser": 4.5,
    "Fridge": 4.6, "GarbageCan": 0.9, "HandTowelHolder": 0.8, "LaundryHamper": 0.2, "Microwave": 1.0, "Ottoman": 0.9,
    "Safe": 0.9, "Shelf": 1.0, "SideTable": 3.0, "SinkBasin": 1.8, "Sofa": 2.5, "StoveBurner": 0.7, "TVStand": 2.5,
    "Toaster": 0.1, "Toilet": 2.4, "ToiletPaperHanger": 0.3, "TowelHolder": 0.9,
}  # fmt: skip
"""Mean number of things in or on one receptacle of a kind, over the official games."""

STANDARD_FITTINGS = {
    "CoffeeMachine": 1, "GarbageCan": 1, "HandTowelHolder": 2, "LaundryHamper": 1, "StoveBurner": 4, "Toaster": 1,
    "Toilet": 1, "ToiletPaperHanger": 1, "TowelHolder": 1,
}  # fmt: skip
"""Receptacles that a floor plan lists among its objects without a place, and how many there are of each."""

NEVER_A_TARGET = frozenset(
    {"BathtubBasin", "HandTowelHolder", "LaundryHamper", "SinkBasin", "TVStand", "Toaster", "TowelHolder"}
)
"""Receptacles to which no official game asks to bring anything."""

LAMP = "DeskLamp"
LAMP_HOLDERS = ("CoffeeTable", "Desk", "Dresser", "Shelf", "SideTable")

LOOK_ALIKES = (
    ("Bowl", "Cup", "Mug", "Plate", "Glassbottle", "Vase"),
    ("ButterKnife", "Fork", "Knife", "Ladle", "Spatula", "Spoon"),
    ("Apple", "Potato", "Tomato", "Egg", "Lettuce", "Bread"),
    ("Kettle", "Pan", "Pot"),
    ("PepperShaker", "SaltShaker"),
    ("Cloth", "DishSponge", "HandTowel", "SoapBar", "Towel"),
    ("SoapBottle", "SprayBottle", "WineBottle", "Candle"),
    ("Pen", "Pencil"),
    ("CD", "CreditCard", "CellPhone", "RemoteControl"),
    ("Book", "Newspaper", "Laptop", "Box"),
    ("KeyChain", "Watch", "AlarmClock"),
    ("TissueBox", "ToiletPaper"),
    ("Statue", "Vase"),
)
"""Kinds that are easily taken for one another."""

MAX_OF_A_KIND = 3
"""No room holds more things of one kind by chance, as in the official games."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Kinds are the simulator's names, such as ``ButterKnife`` and ``CounterTop``."""

    holds: Mapping[str, frozenset[str]]
    """By kind of receptacle, the kinds of things that may be put there."""
    cleanable: frozenset[str]
    heatable: frozenset[str]
    coolable: frozenset[str]
    sliceable: frozenset[str]
    vessels: frozenset[str]
    """Things that can themselves hold things: bowls, pans and the like."""


@cache
def load_facts() -> Facts:
    """The facts of the installed package. Raises `EnvironmentDataError` where it is not installed."""
    constants = runpy.run_path(str(alfworld_folder() / "gen" / "constants.py"))
    vessels = frozenset(constants["MOVABLE_RECEPTACLES"])
    actions = constants["VAL_ACTION_OBJECTS"]
    return Facts(
        holds={
            kind: frozenset(thing for thing in things if not thing.endswith("Sliced"))
            for kind, things in sorted(constants["VAL_RECEPTACLE_OBJECTS"].items())
            if kind not in vessels
        },
        cleanable=frozenset(actions["Cleanable"]),
        heatable=frozenset(actions["Heatable"]),
        coolable=frozenset(actions["Coolable"]),
        sliceable=frozenset(actions["Sliceable"]),
        vessels=vessels,
    )


@cache
def look_alikes(kind: str) -> tuple[str, ...]:
    """The other kinds that are easily taken for ``kind``, sorted."""
    return tuple(sorted({other for family in LOOK_ALIKES if kind in family for other in family} - {kind}))
