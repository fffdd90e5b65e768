"""Generates believable products for a shop, so that everything runs on a machine without data.

`generate_products(count, seed, spec)` streams them; `make_spec` makes a spec from what a person types; `vocabulary` and
`simple_brands` are the closed word lists that a word-level tokenizer needs.

Three titles of the simple style with an instruction of each kind (options and price caps are added by the goals):

- ``Caldera Easy Clean Nail Clipper with Travel Case``, options ``style: 1 pack, 3 pack, 4 pack, 10 pack``;
  *Get me easy carry, bpa free nail clippers with synthetic bristles*
- ``Nestora Usda Organic Black Tea with Natural Flavors``, options ``flavor name: lemon, strawberry, hazelnut``;
  *i need usda organic black tea with natural flavors that tastes of lemon*
- ``Palvino Easy Match Sun Hat with Removable Strap``, options ``color: white, pink, olive``;
  *i'm looking for a sun hat that is easy to match with gift box and the color should be pink*
"""

from services.env_server.environments.webshop.generator.generate import generate_products
from services.env_server.environments.webshop.generator.spec import (
    RICH,
    SIMPLE,
    FamilySize,
    GeneratorSpec,
    Style,
    make_spec,
)
from services.env_server.environments.webshop.generator.vocabulary import simple_brands, vocabulary

__all__ = [
    "RICH",
    "SIMPLE",
    "FamilySize",
    "GeneratorSpec",
    "Style",
    "generate_products",
    "make_spec",
    "simple_brands",
    "vocabulary",
]
