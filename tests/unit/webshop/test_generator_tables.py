"""The generator's tables of kinds, attributes and options, and the vocabulary made from them."""

import itertools
import re
from collections import Counter

import pytest

from services.env_server.environments.webshop.generator import (
    RICH,
    SIMPLE,
    GeneratorSpec,
    generate_products,
    simple_brands,
    vocabulary,
)
from services.env_server.environments.webshop.generator.instructions import OPTION_PHRASES
from services.env_server.environments.webshop.generator.kinds import Department, OptionPool, load_kinds, plural
from services.env_server.environments.webshop.generator.rich_wording import (
    CLOSINGS,
    DETAIL_SENTENCES,
    OPENINGS,
    PROMISES,
    SENTENCES,
    STORY,
)
from services.env_server.environments.webshop.generator.vocabulary import WORD
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.reward.colours import plain_pair, plain_value
from services.env_server.environments.webshop.reward.fuzzy import matches_any

KINDS = load_kinds()
DEPARTMENTS = list(dict.fromkeys(kind.department for kind in KINDS))
POOLS = list(dict.fromkeys(pool for department in DEPARTMENTS for pool in department.pools))


def attributes_of(department: Department) -> list[str]:
    return [attribute for slot in department.slots for attribute in slot.attributes]


def taken_for(pool: OptionPool, wanted: str, chosen: str) -> bool:
    """Whether the reward of either kind of goal takes one value for another."""
    offered = (plain_value(chosen),)
    return matches_any(plain_pair(pool.name, wanted), offered) or matches_any(plain_value(wanted), offered)


def test_there_are_hundreds_of_kinds_with_a_query_of_their_own() -> None:
    assert 150 <= len(KINDS) <= 300
    assert len({kind.query for kind in KINDS}) == len({kind.product_category for kind in KINDS}) == len(KINDS)
    assert all(kind.nouns for kind in KINDS)
    assert all(len(kind.name.split()) <= 3 for kind in KINDS)


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("console table", "console tables"),
        ("women's dress", "women's dresses"),
        ("lunch box", "lunch boxes"),
        ("hot air brush", "hot air brushes"),
        ("karaoke machine", "karaoke machines"),
        ("pantry", "pantries"),
        ("tray", "trays"),
        ("gaming mouse", "gaming mice"),
        ("men's jeans", "men's jeans"),
        ("green tea", "green tea"),
    ],
)
def test_plurals(name: str, many: str) -> None:
    assert plural(name) == many


def test_articles_fit() -> None:
    said = {kind.name: kind.described() for kind in KINDS}
    assert said["ottoman"] == "an ottoman"
    assert said["hdmi cable"] == "an hdmi cable"
    assert said["usb charging cable"] == "a usb charging cable"
    assert said["men's jeans"] == "men's jeans"
    ottoman = next(kind for kind in KINDS if kind.name == "ottoman")
    assert ottoman.described("modern") == "a modern ottoman"


@pytest.mark.parametrize("department", DEPARTMENTS, ids=lambda department: department.path)
def test_attributes_are_two_words_that_nothing_else_in_the_department_says(department: Department) -> None:
    attributes = attributes_of(department)
    assert len(set(attributes)) == len(attributes) >= 8
    assert all(len(attribute.split()) == 2 for attribute in attributes)
    for one, other in itertools.permutations(attributes, 2):
        assert not matches_any(one, (other,)), (one, other)
        assert one not in other
    names = [kind.name for kind in KINDS if kind.department is department]
    for attribute, text in itertools.product(attributes, (*department.looks, *department.details, *names)):
        assert attribute not in text


@pytest.mark.parametrize("department", DEPARTMENTS, ids=lambda department: department.path)
def test_a_department_has_enough_of_everything(department: Department) -> None:
    assert len(department.slots) >= 8
    assert len(department.looks) >= 4 and len(department.details) >= 4
    assert 1 <= len(department.pools) <= 3
    assert 0 < department.price[0] < department.price[1]
    places = Counter(slot.place for slot in department.slots)
    for place, sentences in SENTENCES.items():
        assert places[place] <= len(sentences)
    for first, second in itertools.permutations(department.pools, 2):
        assert first.name != second.name
        for wanted, chosen in itertools.product(first.values, second.values):
            assert wanted != chosen and not taken_for(first, wanted, chosen), (wanted, chosen)


def test_no_fixed_sentence_names_an_attribute() -> None:
    fixed = (*OPENINGS, *itertools.chain(*SENTENCES.values()), *DETAIL_SENTENCES, *CLOSINGS, *PROMISES, *STORY)
    for attribute in {attribute for department in DEPARTMENTS for attribute in attributes_of(department)}:
        assert not any(attribute in sentence.lower() for sentence in fixed), attribute


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: f"{pool.name}: {pool.values[0]}")
def test_the_reward_knows_every_option_value_and_takes_none_for_another(pool: OptionPool) -> None:
    assert pool.name in OPTION_PHRASES
    for value in pool.values:
        assert matches_any(plain_pair(pool.name, value), (plain_value(value),)), value
        assert re.fullmatch(r"[a-z0-9]+( [a-z0-9]+)*", value)
    for wanted, chosen in itertools.permutations(pool.values, 2):
        assert not taken_for(pool, wanted, chosen), (wanted, chosen)


def test_the_vocabulary_is_small() -> None:
    words = vocabulary()
    assert list(words) == sorted(set(words))
    assert len(words) + len(simple_brands()) < 1500


def test_the_simple_style_uses_no_word_outside_the_vocabulary() -> None:
    known = {*vocabulary(), *simple_brands()}
    for product in generate_products(4000, 3, SIMPLE):
        assert words_of(product.title, product.description, *product.bullets, *said(product)) <= known


def words_of(*texts: str) -> set[str]:
    return {word for text in texts for word in WORD.findall(text.lower()) if not word.isdigit()}


def said(product: Product) -> list[str]:
    texts = [product.query, product.category, product.product_category, *product.attributes, *product.options]
    texts += itertools.chain(*product.options.values())
    texts += [wanted.text for wanted in (product.synthetic, *product.human) if wanted]
    return texts


@pytest.mark.parametrize("spec", [RICH, SIMPLE], ids=["rich", "simple"])
def test_titles_use_no_word_outside_the_vocabulary_but_brand_and_model(spec: GeneratorSpec) -> None:
    known = set(vocabulary())
    for product in generate_products(2000, 4, spec):
        _, second, rest = product.title.split(" ", 2)
        model = re.fullmatch(r"[A-Z]{1,2}-?\d+", second)
        assert words_of(rest, "" if model else second, *said(product)) <= known
