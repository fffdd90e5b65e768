"""What somebody wants who would buy a product: in the shop's own form, and as a person would type it."""

from services.env_server.environments.webshop.generator.blueprint import Blueprint, Difference, Trait
from services.env_server.environments.webshop.generator.dice import Dice
from services.env_server.environments.webshop.generator.kinds import Place
from services.env_server.environments.webshop.generator.listing import joined, placed, spoken
from services.env_server.environments.webshop.generator.spec import Style
from services.env_server.environments.webshop.product import Instruction

REQUESTS = ("Find me", "Find me", "Show me", "I need", "I want to buy", "Get me", "Look for")

OPENERS = (
    "i am looking for", "i'm looking for", "i need", "i want", "i want to buy", "find me", "can you find me",
    "i would like", "please get me", "looking for", "help me find", "show me",
)  # fmt: skip

OPTION_PHRASES = {
    "color": ("in {value}", "in the color {value}", "and the color should be {value}"),
    "size": ("in size {value}", "and the size should be {value}", "and i need the {value} size"),
    "style": ("in the {value} style", "and the style should be {value}"),
    "flavor name": ("in {value} flavor", "and the flavor should be {value}", "tasting of {value}"),
    "scent": ("in {value} scent", "and the scent should be {value}", "smelling of {value}"),
    "plug type": ("with {value} plug", "and the plug type should be {value}"),
    "fit type": ("with {value} fit", "and the fit type should be {value}"),
}
"""How people ask for an option value; every group of the tables is here."""


def synthetic_instruction(blueprint: Blueprint, dice: Dice, style: Style) -> Instruction:
    """Such as ``Find me solid wood, easy assemble console tables with steel frame for living room``."""
    wanted = _wanted(blueprint, dice, 2, 4 if style is Style.RICH else 3)
    is_, with_, for_ = (placed(wanted, place) for place in Place)
    words = [dice.pick(REQUESTS), *([", ".join(is_)] if is_ else []), blueprint.kind.query]
    words += [f"with {', '.join(with_)}"] if with_ else []
    words += [f"for {', '.join(for_)}"] if for_ else []
    return Instruction(" ".join(words), tuple(is_ + with_ + for_))


def human_instruction(blueprint: Blueprint, dice: Dice, style: Style) -> Instruction:
    """Such as ``i need a console table that is easy to assemble, for my living room, and the color should be oak``."""
    wanted = _wanted(blueprint, dice, 1, 3 if style is Style.RICH else 2)
    is_, with_, for_ = (placed(wanted, place) for place in Place)
    kind = blueprint.kind
    said = [spoken(text) for text in is_]
    before = [said.pop(0)] if said and is_[0] == said[0] and dice.chance(0.5) else []
    text = f"{dice.pick(OPENERS)} {kind.described(*before)}"
    if said:
        text += f" that {'are' if kind.plural else 'is'} {joined(said)}"
    text += f" with {joined(with_)}" if with_ else ""
    text += f" for {joined(for_)}" if for_ else ""
    values = _wanted_options(blueprint, dice)
    for name, value in values.items():
        text += f" {dice.pick(OPTION_PHRASES[name]).format(value=value)}"
    return Instruction(text, tuple(is_ + with_ + for_), tuple(values.values()))


def _wanted(blueprint: Blueprint, dice: Dice, least: int, most: int) -> list[Trait]:
    """The attributes asked for: always what tells the product from its near-duplicates."""
    first, *rest = blueprint.traits
    count = dice.between(least, min(most, len(blueprint.traits)))
    if blueprint.difference is Difference.ATTRIBUTE:
        return [first, *dice.sample(rest, count - 1)]
    return dice.sample(blueprint.traits, count)


def _wanted_options(blueprint: Blueprint, dice: Dice) -> dict[str, str]:
    """Option name → value asked for: always what tells the product from its near-duplicates."""
    return {
        name: blueprint.own if blueprint.own in values else dice.pick(values)
        for name, values in blueprint.options.items()
        if blueprint.own in values or dice.chance(0.75)
    }
