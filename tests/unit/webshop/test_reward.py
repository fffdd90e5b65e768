"""What a purchase is worth, compared with the original's recordings and with its rules one at a time."""

import json
import lzma
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from services.env_server.environments.webshop.goal import Goal, GoalKind
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.reward import score
from services.env_server.environments.webshop.reward.colours import COLOUR_WORDS
from tests.data_paths import real_data
from tests.webshop_recorded import recorded_lines, recorded_products


def recorded_goal(kind: GoalKind, recorded: dict[str, Any], products: Mapping[str, Product]) -> Goal:
    """A goal of ``goals.json``, with the title nouns of its product."""
    options = recorded["goal_options"]
    return Goal(
        kind=kind,
        index=recorded["goal_idx"],
        asin=recorded["asin"],
        instruction=recorded["instruction_text"],
        attributes=tuple(recorded["attributes"]),
        options=options if kind is GoalKind.SYNTHETIC else tuple(options),
        price_upper=recorded["price_upper"],
        query=recorded["query"],
        category=recorded["category"],
        product_category=recorded["product_category"],
        title=recorded["name"],
        title_nouns=products[recorded["asin"]].title_nouns,
        weight=recorded["weight"],
    )


def test_every_recorded_purchase_is_worth_what_the_original_paid() -> None:
    products = {product.asin: product for product in recorded_products()}
    with lzma.open(real_data("webshop/goals.json.xz"), "rt", encoding="utf-8") as file:
        goals = json.load(file)
    purchases = list(recorded_lines("goldens/reward_goldens.jsonl.xz"))
    for recorded in purchases:
        kind = GoalKind(recorded["goal_set"])
        goal = recorded_goal(kind, goals[kind][recorded["goal_idx"]], products)
        result = score(goal, products[recorded["asin"]], recorded["price"], recorded["options"])
        assert result.total == pytest.approx(recorded["reward"], abs=1e-9), recorded["id"]
        assert result.info() == recorded["info"], recorded["id"]
    assert len(purchases) == 1540


GOAL = Goal(
    kind=GoalKind.SYNTHETIC,
    index=0,
    asin="B000000001",
    instruction="",
    attributes=("solid wood",),
    options={"size": "large"},
    price_upper=50.0,
    query="tables",
    category="garden",
    product_category="Home › Furniture › Tables",
    title="Oak table",
    title_nouns=("oak", "table"),
    weight=1.0,
)
PRODUCT = Product(
    asin="B000000001",
    category="garden",
    query="tables",
    product_category="Home › Furniture › Tables",
    title="Oak table",
    description="",
    bullets=(),
    pricing=(40.0,),
    price_tag="$40.0",
    options={"size": ("large", "x-large", "small")},
    attributes=("solid wood",),
    rating="N.A.",
    main_image="",
    title_nouns=("oak", "table"),
)


def wanting(options: Mapping[str, str] | tuple[str, ...]) -> Goal:
    """The goal with other options."""
    return replace(GOAL, options=options, kind=GoalKind.HUMAN if isinstance(options, tuple) else GoalKind.SYNTHETIC)


def test_buying_what_was_asked_for_pays_one() -> None:
    assert score(GOAL, PRODUCT, 50.0, {"size": "large"}).total == 1


def test_a_price_above_the_cap_costs_its_share() -> None:
    assert score(GOAL, PRODUCT, 50.01, {"size": "large"}).total == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("wanted", "chosen", "matches"),
    [
        ({"size": "large"}, "large", True),
        ({"size": "x-large"}, "large", True),
        ({"size": "large"}, "x-large", False),
        ({"size": "7.5"}, "7", True),
        ({"size": "7"}, "7.5", False),
        ({"size": "large"}, "size", True),
        ({"size": "大"}, "大", False),
        ({"size": "red"}, "wine red", True),
        ({"size": "a\u00a0b"}, "a\u00a0b", False),
        (("standard",), "tan", True),
        (("light blue",), "sky blue", True),
        (("大",), "大", False),
        (("x_y",), "x y", False),
    ],
)
def test_option_values_match_as_loosely_as_in_the_original(
    wanted: Mapping[str, str] | tuple[str, ...], chosen: str, matches: bool
) -> None:
    assert score(wanting(wanted), PRODUCT, 40.0, {"any name": chosen}).options_matched == matches


def test_an_attribute_in_the_texts_counts() -> None:
    bare = replace(PRODUCT, attributes=())
    missing = score(GOAL, bare, 40.0, {})
    assert missing.attributes_matched == 0
    for found in (
        replace(bare, title="SOLID WOOD oak"),
        replace(bare, bullets=("Made of solid", "wood")),
        replace(bare, description="It's Solid Wood."),
    ):
        assert score(GOAL, found, 40.0, {}).attributes_matched == 1


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 1.0),
        ({"query": "chairs"}, 1.0),
        ({"query": "chairs", "product_category": "", "title_nouns": ("oak",)}, 1.0),
        ({"query": "chairs", "product_category": "Home", "title_nouns": ()}, 0.0),
        ({"title_nouns": ()}, 0.0),
    ],
)
def test_another_kind_of_thing_is_worth_less(changes: dict[str, Any], factor: float) -> None:
    assert score(GOAL, replace(PRODUCT, **changes), 40.0, {}).kind.factor == factor


def test_few_common_nouns_pay_a_half_or_a_tenth() -> None:
    other = replace(PRODUCT, query="chairs", product_category="")
    five = replace(GOAL, title_nouns=("oak", "b", "c", "d", "e"))
    assert score(five, other, 40.0, {}).kind.factor == 0.5
    eleven = replace(GOAL, title_nouns=("oak",) + ("b",) * 10)
    assert score(eleven, PRODUCT, 40.0, {}).kind.factor == 0.1


def test_the_parts_of_options_are_left_out_where_none_are_wanted() -> None:
    assert "r_option" not in score(wanting({}), PRODUCT, 40.0, {}).info()


def test_colour_words_keep_the_order_that_decides() -> None:
    assert COLOUR_WORDS[0] == "alabaster"
    assert COLOUR_WORDS.index("sand") < COLOUR_WORDS.index("tan")
    assert score(wanting(("sandal",)), PRODUCT, 40.0, {"style": "sand"}).options_matched == 1
