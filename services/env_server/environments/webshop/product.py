"""A product of the shop, as every part of WebShop here knows it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """What somebody wants who would buy a product: the seed of goals."""

    text: str
    """For a synthetic goal without options and price; for a human goal without price."""
    attributes: tuple[str, ...]
    """What the reward looks for; never empty."""
    options: tuple[str, ...] = ()
    """Option values a person asked for; empty for synthetic instructions, whose goals go over all combinations."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product after the original's cleaning of the official files (see `official`)."""

    asin: str
    """Upper case, at most ten characters; unique in a catalogue."""
    category: str
    query: str
    """Lower case, stripped: the search that the product was found with."""
    product_category: str
    """Path such as ``Home & Kitchen › Furniture``; may be empty."""
    title: str
    description: str
    bullets: tuple[str, ...]
    pricing: tuple[float, ...]
    """One listed price, or the two ends of a range."""
    price_tag: str
    """What pages show: ``$a`` or ``$a to $b``."""
    options: Mapping[str, tuple[str, ...]]
    """Option name → values, both lower case, in page order; values may repeat."""
    attributes: tuple[str, ...]
    rating: str
    main_image: str
    title_nouns: tuple[str, ...]
    """Lower-cased nouns of the title, with repeats: the reward's type part compares them."""
    synthetic: Instruction | None = None
    human: tuple[Instruction, ...] = ()
