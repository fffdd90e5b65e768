"""The rich style: long titles, descriptions and features, in the shape of real listings."""

from functools import cache

from services.env_server.environments.webshop.generator.blueprint import Blueprint, Trait
from services.env_server.environments.webshop.generator.dice import Dice
from services.env_server.environments.webshop.generator.kinds import Kind, Place
from services.env_server.environments.webshop.generator.listing import (
    Listing,
    joined,
    placed,
    sentence_case,
    spoken,
    title_nouns,
    titled,
)
from services.env_server.environments.webshop.generator.rich_wording import (
    CLOSINGS,
    DETAIL_SENTENCES,
    HEADINGS,
    MEASURES,
    OPENINGS,
    PROMISES,
    SENTENCES,
    STORY,
)

DESCRIBED = 0.75
"""How many listings have a description; the others name their attributes in the first feature."""

LONG = 0.35
"""How many of the descriptions are long ones."""

MOST_NOUN_TRAITS = 3
"""Attributes with nouns in one title. More would make two products of the same kind look like different kinds to the
reward: it divides the nouns in common by all nouns wanted, and a tenth is the least that counts."""


def rich_listing(blueprint: Blueprint) -> Listing:
    """The words of a product. Every attribute is in the indexed part: title, description or first feature."""
    dice = Dice(iter(blueprint.wording).__next__)
    shown = _shown(blueprint.traits)
    title = rich_title(blueprint, shown, dice)
    described = dice.chance(DESCRIBED)
    return Listing(
        title=title,
        title_nouns=title_nouns(blueprint, shown),
        description=rich_description(blueprint, dice) if described else "",
        bullets=rich_bullets(blueprint, dice, first_names_all=not described),
    )


def _shown(traits: tuple[Trait, ...]) -> list[Trait]:
    """The attributes that go into the title: the first ones, among them what a family differs in."""
    shown = list(traits[:5])
    with_nouns = [trait for trait in shown if trait.place is not Place.IS]
    return [trait for trait in shown if trait.place is Place.IS or trait in with_nouns[:MOST_NOUN_TRAITS]]


def rich_title(blueprint: Blueprint, shown: list[Trait], dice: Dice) -> str:
    """Such as ``Melvanix KX482 Modern Solid Wood Console Table with Steel Frame, for Living Room (Oak)``."""
    is_, with_, for_ = (placed(shown, place) for place in Place)
    model = f" {blueprint.model}" if blueprint.model else ""
    before = titled(" ".join((blueprint.looks[0], *is_[:1], blueprint.kind.name)))
    pieces = [f"with {joined([titled(text) for text in with_])}"] if with_ else []
    middle = [titled(text) for text in is_[1:]] + [titled(detail) for detail in blueprint.details[: 1 + dice.below(2)]]
    last = [f"for {joined([titled(text) for text in for_])}"] if for_ else []
    pieces += middle + last if dice.chance(0.6) else last + middle
    first_values = [values[0] for values in blueprint.options.values()]
    tag = titled(", ".join(first_values)) if first_values and dice.chance(0.6) else ""
    separator = dice.pick((", ", ", ", " - ", " | "))
    head = f"{blueprint.brand}{model} {before}"
    title = f"{head} {separator.join(pieces)}" if with_ else separator.join((head, *pieces))
    return f"{title} ({tag})" if tag else title


def rich_description(blueprint: Blueprint, dice: Dice) -> str:
    """A paragraph with a sentence for every attribute."""
    kind, look = blueprint.kind, blueprint.looks[-1]
    opening = dice.pick(OPENINGS).format(
        look=look, kind=kind.name, many=kind.query, brand=blueprint.brand, described=kind.described(look)
    )
    # No sentence comes twice: the n-th attribute of a place takes the n-th of that place's shuffled sentences.
    unused = {place: dice.sample(choices, len(choices)) for place, choices in SENTENCES.items()}
    words = _agreeing_words(kind)
    sentences = [unused[trait.place].pop().format(it=spoken(trait.text), **words) for trait in blueprint.traits]
    detail = dice.pick(DETAIL_SENTENCES).format(it=blueprint.details[0])
    closing = dice.pick(CLOSINGS).format(kind=kind.name)
    story = _story(blueprint, dice) if dice.chance(LONG) else []
    return " ".join((opening, *sentences, detail, *story, closing))


def _story(blueprint: Blueprint, dice: Dice) -> list[str]:
    """What makes a description long: measures and sentences about the seller."""
    length, width, height = (round(1 + 60 * dice.skewed(2), 1) for _ in range(3))
    weight = round(0.1 + 30 * dice.skewed(3), 2)
    measures = MEASURES.format(weight=weight, length=length, width=width, height=height)
    kind = blueprint.kind
    words = {"kind": kind.name, "many": kind.query, "look": blueprint.looks[0], "brand": blueprint.brand}
    return [measures, *(text.format(**words) for text in dice.sample(STORY, dice.between(6, 20)))]


@cache
def _agreeing_words(kind: Kind) -> dict[str, str]:
    words = {"kind": kind.name, "described_alone": kind.described()}
    if kind.plural:
        return words | {"they": "they", "They": "They", "is_": "are"}
    return words | {"they": "it", "They": "It", "is_": "is"}


def rich_bullets(blueprint: Blueprint, dice: Dice, first_names_all: bool) -> tuple[str, ...]:
    """Three to seven features; the first is part of what is searched."""
    kind = blueprint.kind
    bullets = []
    if first_names_all:
        named = ", ".join(spoken(trait.text) for trait in blueprint.traits)
        bullets.append(f"{sentence_case(kind.name)}: {named}.")
    traits = blueprint.traits[:5]
    for trait, promise in zip(traits, dice.sample(PROMISES, len(traits)), strict=True):
        text = spoken(trait.text)
        heading = dice.pick(HEADINGS[trait.place]).format(it=text, It=sentence_case(text))
        bullets.append(heading + promise.format(kind=kind.name))
    bullets.append(f"{sentence_case(blueprint.details[-1])} and {blueprint.looks[0]} finish.")
    return tuple(bullets)
