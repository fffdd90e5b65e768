"""Writes the goals of a catalogue, drawn as the original draws them or taken from a recording."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, TypeAdapter

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.mapping import write_numbers
from services.env_server.environments.webshop.catalogue.records import RecordWriter
from services.env_server.environments.webshop.data_files import read_checked
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.goals import (
    CUMULATIVE,
    RECORDS,
    DrawnNumbers,
    RecordedGoal,
    combinations,
)
from services.env_server.environments.webshop.prices import draw_cap
from services.env_server.environments.webshop.product import Instruction, Product

SHUFFLE_SEED = 233
"""The original's own, whatever the seed of prices."""
_AT_ONCE = 1 << 16
"""Goals whose weights are looked up at once: NumPy makes copies of what it is asked."""


class _Bases:
    """Collects the goals of one kind, about 40 bytes for each instruction and 4 for each of its attributes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.product, self.instruction, self.first = array("i"), array("i"), array("i")
        self.cap = array("d")
        self.goals = 0
        self._attributes, self._attribute_ends = array("i"), array("i")
        self._vocabulary: dict[str, int] = {}
        self._goals_with: list[int] = []

    def add(self, product: int, instruction: int, wanted: Instruction, price: float, goals: int) -> None:
        """Add an instruction. The cap is drawn even where there are no goals, as in the original."""
        self.cap.append(draw_cap(price, self._random))
        self.product.append(product)
        self.instruction.append(instruction)
        self.first.append(self.goals)
        self.goals += goals
        for attribute in wanted.attributes:
            known = self._vocabulary.setdefault(attribute, len(self._vocabulary))
            if known == len(self._goals_with):
                self._goals_with.append(0)
            self._goals_with[known] += goals
            self._attributes.append(known)
        self._attribute_ends.append(len(self._attributes))

    def rarity(self) -> "array[float]":
        """For each base the mean, over its attributes, of 1 / (how many goals have that attribute)."""
        weights, start = array("d"), 0
        for end in self._attribute_ends:
            counts = [self._goals_with[attribute] for attribute in self._attributes[start:end]]
            weights.append(sum(1 / count for count in counts if count) / len(counts))
            start = end
        return weights


def write_drawn_goals(
    folder: Path, products: Iterable[Product], prices: Sequence[float], random: Random
) -> dict[GoalKind, int]:
    """Write the goals of both kinds into ``folder``; returns how many of each.

    ``products`` are gone through once, in catalogue order; ``prices`` are theirs. ``random`` stands where drawing the
    prices left it, and stays there: each kind draws its caps from that point.
    """
    state = random.getstate()
    synthetic, human = _Bases(_random_at(state)), _Bases(_random_at(state))
    for number, product in enumerate(products):
        if product.synthetic:
            synthetic.add(number, 0, product.synthetic, prices[number], combinations(product.options))
        for place, instruction in enumerate(product.human):
            human.add(number, place, instruction, prices[number], 1)
    _write(folder / GoalKind.SYNTHETIC, synthetic, synthetic.rarity())
    _write(folder / GoalKind.HUMAN, human, array("d", [1.0]) * human.goals)
    return {GoalKind.SYNTHETIC: synthetic.goals, GoalKind.HUMAN: human.goals}


def _random_at(state: tuple[object, ...]) -> Random:
    random = Random()
    random.setstate(state)
    return random


def _write(folder: Path, bases: _Bases, weights: "array[float]") -> None:
    order = array("i", range(bases.goals))
    Random(SHUFFLE_SEED).shuffle(order)
    unshuffled = np.repeat(np.asarray(weights), np.diff(np.asarray(bases.first), append=bases.goals))
    cumulative = np.zeros(bases.goals + 1)
    for start in range(0, bases.goals, _AT_ONCE):
        places = np.asarray(order[start : start + _AT_ONCE])
        cumulative[1 + start : 1 + start + len(places)] = unshuffled[places]
    folder.mkdir(parents=True)
    DrawnNumbers(bases.product, bases.instruction, bases.first, bases.cap, weights, order).save(folder)
    _write_cumulative(folder, cumulative)


def _write_cumulative(folder: Path, weights: npt.NDArray[np.float64]) -> None:
    """Write the running sums of ``weights``, which begin with a 0 of no goal, and are overwritten.

    They are added one after the other, as the original does it: the last bits decide draws.
    """
    np.cumsum(weights, out=weights)
    write_numbers(folder / CUMULATIVE, weights, "d")


class _GoalRecord(BaseModel):
    """One goal as ``goals.json`` has it."""

    goal_idx: int
    asin: str
    instruction_text: str
    attributes: Annotated[list[str], Field(min_length=1)]
    price_upper: Annotated[float, Field(gt=0)]
    query: str
    category: str
    product_category: str
    name: str
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _SyntheticRecord(_GoalRecord):
    goal_options: dict[str, str]


class _HumanRecord(_GoalRecord):
    goal_options: list[str]


class _GoalsFile(BaseModel):
    """The whole of ``goals.json``; whatever else it says is ignored."""

    synthetic: list[_SyntheticRecord] = []
    human: list[_HumanRecord] = []


def write_recorded_goals(folder: Path, path: Path, number_of: Callable[[str], int | None]) -> dict[GoalKind, int]:
    """Write the goals of a ``goals.json`` (or ``.json.xz``) into ``folder``, as they are; returns how many of each.

    ``number_of`` finds a product's number by its asin. Raises `EnvironmentDataError` that names the file, the field and
    what is wrong with it.
    """
    recorded = read_checked(path, TypeAdapter(_GoalsFile), "each goal needs the fields that the original's goals have")
    kinds: Mapping[GoalKind, Sequence[_SyntheticRecord | _HumanRecord]] = {
        GoalKind.SYNTHETIC: recorded.synthetic,
        GoalKind.HUMAN: recorded.human,
    }
    encode = msgspec.msgpack.Encoder().encode
    for kind, goals in kinds.items():
        own = folder / kind
        own.mkdir(parents=True)
        with RecordWriter(own, RECORDS) as records:
            for index, goal in enumerate(goals):
                records.append(encode(_checked(goal, index, f"{path}: {kind}.{index}", number_of)))
        _write_cumulative(own, np.array([0.0, *(goal.weight for goal in goals)]))
    return {kind: len(goals) for kind, goals in kinds.items()}


def _checked(
    goal: _SyntheticRecord | _HumanRecord, index: int, where: str, number_of: Callable[[str], int | None]
) -> RecordedGoal:
    if goal.goal_idx != index:
        raise EnvironmentDataError(f"{where}.goal_idx = {goal.goal_idx}: goals must stand in their order, from 0 on")
    number = number_of(goal.asin)
    if number is None:
        raise EnvironmentDataError(
            f"{where}.asin = {goal.asin!r}: there is no such product; goals and products must be of the same recording"
        )
    options = goal.goal_options
    return RecordedGoal(
        product=number,
        instruction=goal.instruction_text,
        attributes=tuple(goal.attributes),
        options=tuple(options) if isinstance(options, list) else options,
        price_upper=goal.price_upper,
        query=goal.query,
        category=goal.category,
        product_category=goal.product_category,
        title=goal.name,
        weight=goal.weight,
    )
