"""Draws what a product is before it is put into words, and the near-duplicates of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from services.env_server.environments.webshop.generator.brands import composed_brand, model_number, simple_brand
from services.env_server.environments.webshop.generator.dice import Dice
from services.env_server.environments.webshop.generator.kinds import Kind, Place, Slot
from services.env_server.environments.webshop.generator.spec import GeneratorSpec, Style

WORDING_THROWS = 64
"""How many choices the wording of one listing may take."""

PRICE_GAP = 45.0
"""How much dearer a near-duplicate in price is at least: more than any cap above the cheaper one's price, which is at
most 40 dollars higher (see the reward's price caps)."""


class Difference(StrEnum):
    """In what the members of a family of near-duplicates differ."""

    ATTRIBUTE = "attribute"
    OPTION = "option"
    PRICE = "price"


@dataclass(frozen=True, slots=True)
class Trait:
    """An attribute and its place in a sentence."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A product before it is put into words."""

    kind: Kind
    brand: str
    model: str
    """Empty where titles have none."""
    looks: tuple[str, ...]
    details: tuple[str, ...]
    traits: tuple[Trait, ...]
    """At least two; the first is the one that attribute families differ in."""
    options: Mapping[str, tuple[str, ...]]
    pricing: tuple[float, ...]
    wording: tuple[float, ...]
    """The throws that decide every choice of words, so that near-duplicates read alike. The simple style has none."""
    family: int
    """Number of the family, or of the single product."""
    difference: Difference | None = None
    """None for a product without near-duplicates."""
    own: str = ""
    """What only this member of its family has: an attribute or an option value."""


def draw_family(dice: Dice, spec: GeneratorSpec, kinds: Sequence[Kind], number: int) -> list[Blueprint]:
    """One product, or a family of near-duplicates of which each pair differs in exactly one thing."""
    base = draw_blueprint(dice, spec, kinds, number)
    if not dice.chance(family_probability(spec)):
        return [base]
    size = dice.between(spec.family_size.low, spec.family_size.high)
    throw = dice.number()
    if base.options and throw < 0.35:
        family = _differ_in_option(dice, base, size)
    elif throw < 0.75:
        family = _differ_in_attribute(dice, base, size)
    else:
        family = _differ_in_price(base, size)
    # A family that found no second member is a single product like any other.
    return family if len(family) > 1 else [base]


def family_probability(spec: GeneratorSpec) -> float:
    """How often a draw starts a family, so that the wanted share of all products belongs to one."""
    mean_size = (spec.family_size.low + spec.family_size.high) / 2
    return spec.near_duplicates / (spec.near_duplicates + (1 - spec.near_duplicates) * mean_size)


def draw_blueprint(dice: Dice, spec: GeneratorSpec, kinds: Sequence[Kind], number: int) -> Blueprint:
    """One product."""
    rich = spec.style is Style.RICH
    kind = dice.pick(kinds)
    department = kind.department
    slots = dice.sample(department.slots, dice.between(3, 8) if rich else dice.between(2, 4))
    with_model = rich and dice.chance(0.6 if department.area == "electronics" else 0.15)
    return Blueprint(
        kind=kind,
        brand=composed_brand(dice) if rich else simple_brand(dice),
        model=model_number(dice) if with_model else "",
        looks=tuple(dice.sample(department.looks, 2)),
        details=tuple(dice.sample(department.details, 2)),
        traits=tuple(Trait(slot.place, dice.pick(slot.attributes)) for slot in slots),
        options=_draw_options(dice, spec, kind),
        pricing=_draw_pricing(dice, department.price),
        wording=tuple(dice.number() for _ in range(WORDING_THROWS)) if rich else (),
        family=number,
    )


def _draw_options(dice: Dice, spec: GeneratorSpec, kind: Kind) -> dict[str, tuple[str, ...]]:
    rich = spec.style is Style.RICH
    pools = kind.department.pools
    options: dict[str, tuple[str, ...]] = {}
    left = spec.combinations
    for pool in dice.subset(pools, dice.below(min(len(pools), 3 if rich else 2) + 1)):
        most = min(left, len(pool.values), 8 if rich else 5)
        if most < 2:
            break
        count = dice.between(2, most)
        options[pool.name] = tuple(dice.subset(pool.values, count))
        left //= count
    return options


def _draw_pricing(dice: Dice, limits: tuple[float, float]) -> tuple[float, ...]:
    """One price, or now and then the two ends of a range; low prices are more frequent than high ones."""
    low, high = limits
    price = low + (high - low) * dice.skewed(2)
    ending = dice.pick((0.99, 0.99, 0.95, 0.5, 0.0, round(dice.number(), 2)))
    first = round(int(price) + ending, 2)
    if dice.chance(0.09):
        return first, round(first * (1.2 + dice.number()), 2)
    return (first,)


def _differ_in_attribute(dice: Dice, base: Blueprint, size: int) -> list[Blueprint]:
    first, *rest = base.traits
    used = {trait.text for trait in rest}
    others = [text for text in _alternatives(base.kind.department.slots, first, used) if text != first.text]
    return [
        replace(base, traits=(Trait(first.place, text), *rest), difference=Difference.ATTRIBUTE, own=text)
        for text in (first.text, *dice.sample(others, size - 1))
    ]


def _alternatives(slots: Sequence[Slot], trait: Trait, used: set[str]) -> list[str]:
    """Attributes that could stand in place of a trait: of its own slot, and of those that the product does not use."""
    return [
        text
        for slot in slots
        if slot.place is trait.place and used.isdisjoint(slot.attributes)
        for text in slot.attributes
    ]


def _differ_in_option(dice: Dice, base: Blueprint, size: int) -> list[Blueprint]:
    pool = dice.pick([pool for pool in base.kind.department.pools if pool.name in base.options])
    values = base.options[pool.name]
    place = dice.below(len(values))
    others = [value for value in pool.values if value not in values]
    return [
        replace(
            base,
            options={**base.options, pool.name: (*values[:place], value, *values[place + 1 :])},
            difference=Difference.OPTION,
            own=value,
        )
        for value in (values[place], *dice.sample(others, size - 1))
    ]


def _differ_in_price(base: Blueprint, size: int) -> list[Blueprint]:
    first = base.pricing[0]
    return [
        replace(
            base, pricing=(round(first + rank * max(PRICE_GAP, round(first * 0.6)), 2),), difference=Difference.PRICE
        )
        for rank in range(size)
    ]
