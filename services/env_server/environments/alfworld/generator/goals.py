"""What a game may ask for in a room, and how it is said in the words of the official templates."""

import random
from dataclasses import dataclass
from functools import cache

from services.env_server.environments.alfworld.generator.facts import LAMP, LAMP_HOLDERS, NEVER_A_TARGET, load_facts
from services.env_server.environments.alfworld.generator.floor_plans import FloorPlan, floor_plan

APPLIANCE = {
    "pick_clean_then_place_in_recep": "SinkBasin",
    "pick_heat_then_place_in_recep": "Microwave",
    "pick_cool_then_place_in_recep": "Fridge",
}
"""Where a thing is brought into the state that a task type wants."""

TEMPLATES = {
    "pick_and_place_simple": ("put a {thing} in {target}", "put some {thing} on {target}"),
    "look_at_obj_in_light": ("look at {thing} under the {lamp}", "examine the {thing} with the {lamp}"),
    "pick_clean_then_place_in_recep": ("put a clean {thing} in {target}", "clean some {thing} and put it in {target}"),
    "pick_heat_then_place_in_recep": ("put a hot {thing} in {target}", "heat some {thing} and put it in {target}"),
    "pick_cool_then_place_in_recep": ("put a cool {thing} in {target}", "cool some {thing} and put it in {target}"),
    "pick_two_obj_and_place": ("put two {thing} in {target}", "find two {thing} and put them in {target}"),
}
"""The goal sentences of ALFWorld, two for each type of task; agents are trained on exactly these words."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a game asks for, in kinds."""

    task_type: str
    thing: str
    target: str
    """The kind of receptacle where it must end; empty for ``look_at_obj_in_light``."""

    @property
    def appliance(self) -> str:
        """The kind of receptacle that cleans, heats or cools; empty where none is needed."""
        return APPLIANCE.get(self.task_type, "")

    @property
    def needs_lamp(self) -> bool:
        """Whether the thing is to be looked at in the light of a lamp."""
        return self.task_type == "look_at_obj_in_light"

    @property
    def wanted(self) -> int:
        """How many things of the kind the task needs."""
        return 2 if self.task_type == "pick_two_obj_and_place" else 1

    @property
    def ends_with_placing(self) -> bool:
        """Whether a thing that already is at its destination would have solved the task."""
        return not self.appliance and not self.needs_lamp

    def sentence(self, rng: random.Random) -> str:
        """The goal in the words of one of the templates."""
        return rng.choice(TEMPLATES[self.task_type]).format(
            thing=self.thing.lower(), target=self.target.lower(), lamp=LAMP.lower()
        )


@cache
def possible_goals(plan_number: int, task_type: str) -> tuple[Goal, ...]:
    """Every goal of a type that the floor plan allows, sorted; empty where it allows none."""
    plan, holds = floor_plan(plan_number), load_facts().holds
    kinds = sorted({receptacle.kind for receptacle in plan.receptacles})
    appliance = APPLIANCE.get(task_type, "")
    if appliance and appliance not in kinds:
        return ()
    if task_type == "look_at_obj_in_light":
        if LAMP not in plan.things or not set(LAMP_HOLDERS) & set(kinds):
            return ()
        return tuple(Goal(task_type, thing, "") for thing in _things_for(task_type, plan) if _homes(thing, kinds, ""))
    return tuple(
        Goal(task_type, thing, target)
        for thing in _things_for(task_type, plan)
        for target in kinds
        if target not in (appliance, *NEVER_A_TARGET) and thing in holds[target] and _homes(thing, kinds, target)
    )


def _things_for(task_type: str, plan: FloorPlan) -> list[str]:
    facts = load_facts()
    fit = {
        "pick_clean_then_place_in_recep": facts.cleanable,
        "pick_heat_then_place_in_recep": facts.heatable,
        "pick_cool_then_place_in_recep": facts.coolable,
    }.get(task_type)
    return [thing for thing in plan.things if thing != LAMP and (fit is None or thing in fit)]


def _homes(thing: str, kinds: list[str], target: str) -> list[str]:
    """The kinds of receptacles, other than the target, where the thing may be found."""
    return [kind for kind in kinds if kind != target and thing in load_facts().holds[kind]]
