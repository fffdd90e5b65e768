"""The simple style: titles of at most eight words, every attribute named in the description and in the features."""

from services.env_server.environments.webshop.generator.blueprint import Blueprint
from services.env_server.environments.webshop.generator.kinds import Place
from services.env_server.environments.webshop.generator.listing import (
    Listing,
    joined,
    placed,
    sentence_case,
    spoken,
    title_nouns,
    titled,
)

TITLE_WORDS = 8
TITLE_TRAITS = 2


def simple_listing(blueprint: Blueprint) -> Listing:
    """The words of a product. The title shows the first two attributes, among them what a family differs in."""
    shown = list(blueprint.traits[:TITLE_TRAITS])
    features = [sentence_case(spoken(trait.text)) for trait in blueprint.traits]
    return Listing(
        title=simple_title(blueprint),
        title_nouns=title_nouns(blueprint, shown),
        description=simple_description(blueprint),
        bullets=(*features, sentence_case(blueprint.details[0])),
    )


def simple_title(blueprint: Blueprint) -> str:
    """Such as ``Vexano Solid Wood Console Table with Steel Frame``."""
    shown = blueprint.traits[:TITLE_TRAITS]
    words = [blueprint.brand, *placed(shown, Place.IS), blueprint.kind.name]
    after = [(place, text) for place in (Place.WITH, Place.FOR) for text in placed(shown, place)]
    spare = TITLE_WORDS - len(" ".join([*words, *(text for _, text in after)]).split())
    title = titled(" ".join(words))
    for place, text in after:
        preposition = f" {place}" if spare > 0 else ""
        spare -= 1
        title += f"{preposition} {titled(text)}"
    return title


def simple_description(blueprint: Blueprint) -> str:
    """One sentence that names every attribute."""
    kind, traits = blueprint.kind, blueprint.traits
    is_, with_, for_ = (placed(traits, place) for place in Place)
    sentence = sentence_case(kind.described(blueprint.looks[0]))
    if is_:
        sentence += f", {joined([spoken(text) for text in is_])}"
    if with_:
        sentence += f", with {joined(with_)}"
    if for_:
        sentence += f", for {joined(for_)}"
    return f"{sentence}."
