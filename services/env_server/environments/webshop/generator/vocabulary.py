"""The closed vocabulary of generated products, from which a word-level tokenizer can be built."""

import re
from collections.abc import Iterator

from services.env_server.environments.webshop.generator.brands import SIMPLE_BRANDS
from services.env_server.environments.webshop.generator.instructions import OPENERS, OPTION_PHRASES, REQUESTS
from services.env_server.environments.webshop.generator.kinds import Place, load_kinds
from services.env_server.environments.webshop.generator.listing import spoken

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+")
"""A word or a number of lower-cased text: a run of letters with at most one apostrophe inside, or a run of digits."""

GRAMMAR = ("a", "an", "and", "is", "are", "that")
"""Words that instructions are put together with."""


def vocabulary() -> tuple[str, ...]:
    """All words, sorted, that generated text may hold: titles, attributes, options, instructions, queries, categories.

    Not among them: brands (`simple_brands` has those of the simple style), model numbers and numbers, and the rich
    style's descriptions and features, whose sentences use more words. The simple style's use no others.
    """
    found = {word for text in _texts() for word in WORD.findall(text.lower())}
    return tuple(sorted(word for word in found if not word.isdigit()))


def simple_brands() -> tuple[str, ...]:
    """The brands of the simple style as words of `vocabulary` are: lower case."""
    return tuple(brand.lower() for brand in SIMPLE_BRANDS)


def _texts() -> Iterator[str]:
    yield from (*GRAMMAR, *Place, *REQUESTS, *OPENERS)
    for phrases in OPTION_PHRASES.values():
        yield from (phrase.replace("{value}", "") for phrase in phrases)
    for kind in load_kinds():
        department = kind.department
        yield from (kind.name, kind.query, kind.product_category, department.area)
        yield from (*department.looks, *department.details)
        for slot in department.slots:
            yield from map(spoken, slot.attributes)
        for pool in department.pools:
            yield from (pool.name, *pool.values)
