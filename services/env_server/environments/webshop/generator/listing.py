"""Puts a product into words: what both styles share."""

from dataclasses import dataclass
from functools import cache

from services.env_server.environments.webshop.generator.blueprint import Blueprint, Trait
from services.env_server.environments.webshop.generator.kinds import Place, nouns, title_case


@dataclass(frozen=True, slots=True)
class Listing:
    """The words of one product."""

    title: str
    title_nouns: tuple[str, ...]
    description: str
    bullets: tuple[str, ...]


@cache
def titled(text: str) -> str:
    """Title case, remembered: there are a few thousand phrases and millions of titles."""
    return title_case(text)


@cache
def spoken(attribute: str) -> str:
    """An attribute as people say it: ``easy assemble`` is easy to assemble."""
    first, _, rest = attribute.partition(" ")
    return f"{first} to {rest}" if first in ("easy", "ready") else attribute


@cache
def sentence_case(text: str) -> str:
    """With a capital at the beginning only."""
    return text[:1].upper() + text[1:]


def title_nouns(blueprint: Blueprint, shown: list[Trait]) -> tuple[str, ...]:
    """Nouns of a title by construction: the brand, the kind, and what it has or is for."""
    found = [blueprint.brand.lower(), *blueprint.kind.nouns]
    for trait in shown:
        # What a tagger would call nouns: ``steel frame`` has two, ``easy assemble`` none.
        if trait.place is not Place.IS:
            found += nouns(trait.text)
    return tuple(found)


def placed(traits: tuple[Trait, ...] | list[Trait], place: Place) -> list[str]:
    """The texts of the traits of one place, in their order."""
    return [trait.text for trait in traits if trait.place is place]


def joined(texts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join((", ".join(texts[:-1]), texts[-1])) if len(texts) > 1 else "".join(texts)
