"""What to type into the search bar to find a product."""

import re
from collections.abc import Iterator

from services.env_server.environments.webshop.goal import Goal, GoalKind
from services.env_server.environments.webshop.prices import cap_text
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.shopping.action import Action, parse_action

_MOST_LETTERS = 1_000
"""Of a query: more words than that find nothing that fewer do not."""

_NOT_TYPED = re.compile(r"[\[\]\s]+")
"""Brackets would end the action early; line breaks and repeated blanks mean nothing to the search."""


def queries(goal: Goal, product: Product) -> Iterator[str]:
    """Searches that may list a product, from what a person would try first to what finds nearly anything; no repeats.

    First in words of the instruction, in their order there: the kind of product, with its attributes, with its options
    as well. After that in words of the product itself, which only somebody can know who has seen it.
    """
    text = goal.instruction.removesuffix(cap_text(goal.price_upper)).lower()
    options = goal.options if isinstance(goal.options, tuple) else tuple(goal.options.values())
    candidates = [
        _in_order(text, [goal.query]),
        _in_order(text, [goal.query, *goal.attributes]),
        _in_order(text, [goal.query, *goal.attributes, *options]),
        text if goal.kind is GoalKind.HUMAN else "",
        product.title,
        f"{product.title} {' '.join(options)} {goal.query}",
        f"{product.title} {' '.join(product.bullets[:1])} {product.description}",
    ]
    typed = (_NOT_TYPED.sub(" ", candidate.lower()[:_MOST_LETTERS]).strip() for candidate in candidates)
    return iter(dict.fromkeys(query for query in typed if query and not query.startswith("<")))


def labels(product: Product) -> Iterator[str]:
    """Searches that list a product by what it is filed under, however long the list: the last resort."""
    for search in (f"<q> {product.query}", f"<c> {product.category}"):
        if parse_action(f"search[{search}]") == Action("search", search):
            yield search


def _in_order(text: str, phrases: list[str]) -> str:
    """Those of the phrases that occur in a text, in the order in which they do."""
    places = {phrase: text.find(phrase.lower()) for phrase in phrases}
    return " ".join(sorted((phrase for phrase, place in places.items() if place >= 0), key=places.__getitem__))
