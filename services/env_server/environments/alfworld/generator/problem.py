"""Writes a furnished room as a PDDL problem of the ``alfred`` domain, in the shape of the official games."""

from collections.abc import Iterable

from services.env_server.environments.alfworld.generator.facts import LAMP, load_facts
from services.env_server.environments.alfworld.generator.floor_plans import pddl_name
from services.env_server.environments.alfworld.generator.furnish import Room
from services.env_server.environments.alfworld.generator.goals import Goal

DOMAIN_THING_TYPES = frozenset({"ButterKnife", "Knife"})
DOMAIN_RECEPTACLE_TYPES = frozenset({"Fridge", "Microwave", "SinkBasin"})
"""Types that the domain's actions name, so that every problem must declare them."""


def write_problem(room: Room, name: str) -> str:
    """The PDDL problem called ``name``."""
    declarations = "\n".join(f"        {item} - {type_}" for item, type_ in _objects(room))
    facts = "\n".join(f"        ({fact})" for fact in _facts(room))
    return (
        f"\n(define (problem {name})\n(:domain alfred)\n(:objects\n{declarations}\n        )\n"
        f"(:init\n{facts}\n        )\n{_goal(room.goal)}\n)\n"
    )


def _objects(room: Room) -> Iterable[tuple[str, str]]:
    yield "agent1", "agent"
    for kind in sorted({thing.kind for thing in room.things} | DOMAIN_THING_TYPES):
        yield f"{kind}Type", "otype"
    for kind in sorted({r.kind for r in room.receptacles} | DOMAIN_RECEPTACLE_TYPES):
        yield f"{kind}Type", "rtype"
    for thing in room.things:
        yield pddl_name(thing.id), "object"
    for receptacle in room.receptacles:
        yield pddl_name(receptacle.id), "receptacle"
    for location in sorted({r.location for r in room.receptacles} | {room.plan.start}):
        yield location, "location"


def _facts(room: Room) -> Iterable[str]:
    known = load_facts()
    receptacles = [(pddl_name(r.id), r) for r in room.receptacles]
    things = [(pddl_name(thing.id), thing) for thing in room.things]
    thing_kinds = sorted({thing.kind for thing in room.things})
    for name, receptacle in receptacles:
        yield f"receptacleType {name} {receptacle.kind}Type"
    for name, thing in things:
        yield f"objectType {name} {thing.kind}Type"
    for kind in sorted({r.kind for r in room.receptacles}):
        for thing_kind in thing_kinds:
            if thing_kind in known.holds[kind]:
                yield f"canContain {kind}Type {thing_kind}Type"
    for name, thing in things:
        if thing.kind == LAMP:
            yield f"toggleable {name}"
        else:
            yield f"pickupable {name}"
    for predicate, kinds in (
        ("isReceptacleObject", known.vessels),
        ("cleanable", known.cleanable),
        ("heatable", known.heatable),
        ("coolable", known.coolable),
        ("sliceable", known.sliceable),
    ):
        for name, thing in things:
            if thing.kind in kinds:
                yield f"{predicate} {name}"
    for name, receptacle in receptacles:
        if receptacle.openable:
            yield f"openable {name}"
    yield f"atLocation agent1 {room.plan.start}"
    for name, thing in things:
        yield f"inReceptacle {name} {pddl_name(thing.receptacle.id)}"
    for name, receptacle in receptacles:
        yield f"receptacleAtLocation {name} {receptacle.location}"
    for name, thing in things:
        yield f"objectAtLocation {name} {thing.receptacle.location}"


def _goal(goal: Goal) -> str:
    """The goal formula, with the same atoms and quantifiers as the official games of the type."""
    if goal.needs_lamp:
        return f"""(:goal
    (and
        (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
            (and
                (objectType ?ot {LAMP}Type)
                (toggleable ?ot)
                (isToggled ?ot)
                (receptacleAtLocation ?r ?l)
                (atLocation ?a ?l)
                (inReceptacle ?ot ?r)
            )
        )
        (exists (?o - object ?a - agent)
            (and
                (objectType ?o {goal.thing}Type)
                (holds ?a ?o)
            )
        )
    )
)"""
    thing = f"(objectType ?o {goal.thing}Type)"
    target = f"(receptacleType ?r {goal.target}Type)"
    state = {
        "pick_clean_then_place_in_recep": ("(cleanable ?o)", "(isClean ?o)"),
        "pick_heat_then_place_in_recep": ("(heatable ?o)", "(isHot ?o)"),
        "pick_cool_then_place_in_recep": ("(coolable ?o)", "(isCool ?o)"),
    }.get(goal.task_type, ())
    conditions = [*state, thing, target, "(inReceptacle ?o ?r)"]
    if goal.wanted == 2:
        second = f"(not (= ?o ?o2)) (objectType ?o2 {goal.thing}Type) {target} (inReceptacle ?o2 ?r)"
        conditions.append(f"(exists (?o2 - object) (and {second}))")
    return f"""(:goal
    (and
        (exists (?r - receptacle)
            (exists (?o - object)
                (and
                    {(chr(10) + 20 * " ").join(conditions)}
                )
            )
        )
    )
)"""
