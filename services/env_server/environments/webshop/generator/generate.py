"""The stream of generated products."""

from collections.abc import Iterator
from itertools import count as count_up
from itertools import islice

from services.env_server.environments.webshop.generator.asins import AsinScramble
from services.env_server.environments.webshop.generator.blueprint import Blueprint, draw_family
from services.env_server.environments.webshop.generator.dice import Dice
from services.env_server.environments.webshop.generator.instructions import human_instruction, synthetic_instruction
from services.env_server.environments.webshop.generator.kinds import load_kinds
from services.env_server.environments.webshop.generator.rich_listing import rich_listing
from services.env_server.environments.webshop.generator.simple_listing import simple_listing
from services.env_server.environments.webshop.generator.spec import RICH, GeneratorSpec, Style, check_count
from services.env_server.environments.webshop.product import Product

NO_IMAGE = "data:,"
"""The empty image: generated products have none, and no page may fetch one from elsewhere."""


def generate_products(count: int, seed: int, spec: GeneratorSpec = RICH) -> Iterator[Product]:
    """The first ``count`` products of the shop that a seed and a spec describe, one at a time.

    Equal arguments give equal products on every machine and Python version; a larger count goes on where a smaller one
    stopped. Raises `EnvironmentDataError` for a count that is not possible.
    """
    check_count(count)
    asin = AsinScramble(seed)
    dice = Dice.seeded("products", seed)
    stream = (
        _product(blueprint, asin(number), dice, spec)
        for number, blueprint in enumerate(generate_blueprints(seed, spec))
    )
    return islice(stream, count)


def generate_blueprints(seed: int, spec: GeneratorSpec = RICH) -> Iterator[Blueprint]:
    """The products before they are put into words, without end; near-duplicates follow one another."""
    dice = Dice.seeded("blueprints", seed)
    kinds = [kind for kind in load_kinds() if kind.department.area in spec.areas]
    for number in count_up():
        yield from draw_family(dice, spec, kinds, number)


def _product(blueprint: Blueprint, asin: str, dice: Dice, spec: GeneratorSpec) -> Product:
    listing = rich_listing(blueprint) if spec.style is Style.RICH else simple_listing(blueprint)
    synthetic = dice.chance(spec.synthetic_share)
    human = dice.chance(spec.human_share)
    kind = blueprint.kind
    return Product(
        asin=asin,
        category=kind.department.area,
        query=kind.query,
        product_category=kind.product_category,
        title=listing.title,
        description=listing.description,
        bullets=listing.bullets,
        pricing=blueprint.pricing,
        price_tag=" to ".join(f"${price}" for price in blueprint.pricing),
        options=blueprint.options,
        attributes=tuple(trait.text for trait in blueprint.traits),
        rating="N.A.",
        main_image=NO_IMAGE,
        title_nouns=listing.title_nouns,
        synthetic=synthetic_instruction(blueprint, dice, spec.style) if synthetic else None,
        human=(human_instruction(blueprint, dice, spec.style),) if human else (),
    )
