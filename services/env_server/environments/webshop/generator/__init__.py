"""Generates believable products for a shop, so that everything runs on a machine without data.

`generate_products(count, seed, spec)` streams them; `make_spec` makes a spec from what a person types; `vocabulary` and
`simple_brands` are the closed word lists that a word-level tokenizer needs.

Three of the products of ``generate_products(60, 1, SIMPLE)`` (goals add options and price caps to
synthetic instructions):

- ``B049990682 Tavira Non Gmo Herbal Tea for Gift Giving``, $28.0, flavor name: lemon, peach, ginger, mocha, raspberry;
  size: 8 ct, 15 ct. *i am looking for herbal tea that is non gmo tasting of lemon and i need the 8 ct size*
- ``B019516658 Nalvo Quick Drying Short Sleeve Women's Camisole``, $9.99, color: pink, khaki, burgundy; size: small,
  medium, xxl. *Look for quick drying, short sleeve women's camisoles*
- ``B072558319 Wexford Easy Assemble Dining Table for Living Room``, $174.17, color: cherry, natural, maple; size:
  30 in, 48 in, 60 in. *Get me easy assemble dining tables for living room*
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
