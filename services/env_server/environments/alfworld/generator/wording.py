"""Says a goal as three different people would, from templates."""

import random
import re

from services.env_server.environments.alfworld.generator.goals import Goal

SPOKEN = {
    "ArmChair": "chair", "Bread": "loaf of bread", "Lettuce": "head of lettuce", "BathtubBasin": "bathtub",
    "CD": "CD", "CounterTop": "counter", "GarbageCan": "trash can",
    "Glassbottle": "glass bottle", "HandTowelHolder": "towel rack", "KeyChain": "set of keys", "SinkBasin": "sink",
    "TVStand": "TV stand", "ToiletPaper": "roll of toilet paper", "ToiletPaperHanger": "toilet paper holder",
}  # fmt: skip
"""Kinds that people call otherwise than by splitting the simulator's name into words."""

PLURAL = {
    "ButterKnife": "butter knives", "Knife": "knives", "KeyChain": "sets of keys",
    "ToiletPaper": "rolls of toilet paper", "Box": "boxes", "DishSponge": "dish sponges", "Watch": "watches",
    "TissueBox": "tissue boxes", "Potato": "potatoes", "Tomato": "tomatoes", "Lettuce": "heads of lettuce",
    "Bread": "loaves of bread",
}  # fmt: skip

INSIDE = frozenset(
    {"Cabinet", "Drawer", "Fridge", "GarbageCan", "LaundryHamper", "Microwave", "Safe", "SinkBasin", "BathtubBasin"}
)

SENTENCES = {
    "pick_and_place_simple": (
        "Put {a} {in_target}.", "Move {a} to {target}.", "Find {a} and set it {in_target}.", "Place {a} {in_target}.",
        "Take {a} over to {target} and leave it there.",
    ),
    "look_at_obj_in_light": (
        "Look at {a} in the light of a lamp.", "Examine {a} by the desk lamp.", "Hold {a} and turn the lamp on.",
        "Pick up {a} and switch on the desk lamp.", "Take {a} to a lit lamp.",
    ),
    "pick_clean_then_place_in_recep": (
        "Put a clean {one} {in_target}.", "Wash {a} and put it {in_target}.",
        "Rinse {a} in the sink, then set it {in_target}.",
        "Place a washed {one} {in_target}.", "Clean {a} and take it to {target}.",
    ),
    "pick_heat_then_place_in_recep": (
        "Put a heated {one} {in_target}.", "Warm up {a} and put it {in_target}.",
        "Microwave {a}, then place it {in_target}.",
        "Heat {a} and take it to {target}.", "Place a hot {one} {in_target}.",
    ),
    "pick_cool_then_place_in_recep": (
        "Put a chilled {one} {in_target}.", "Cool {a} and put it {in_target}.",
        "Chill {a} in the fridge, then place it {in_target}.",
        "Place a cold {one} {in_target}.", "Cool down {a} and take it to {target}.",
    ),
    "pick_two_obj_and_place": (
        "Put two {many} {in_target}.", "Move two {many} to {target}.", "Find two {many} and set them {in_target}.",
        "Gather two {many} and leave them {in_target}.", "Place a pair of {many} {in_target}.",
    ),
}  # fmt: skip


def human_goals(goal: Goal, rng: random.Random) -> list[str]:
    """Three different sentences for the same goal."""
    one = spoken(goal.thing)
    target = f"the {spoken(goal.target)}" if goal.target else ""
    words = {
        "one": one,
        "a": f"{'an' if one[0] in 'aeiou' else 'a'} {one}",
        "many": PLURAL.get(goal.thing, f"{one}s"),
        "target": target,
        "in_target": f"{'in' if goal.target in INSIDE else 'on'} {target}",
    }
    return [sentence.format(**words) for sentence in rng.sample(SENTENCES[goal.task_type], 3)]


def spoken(kind: str) -> str:
    """A kind as people say it: ``ButterKnife`` is a butter knife."""
    return SPOKEN.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
