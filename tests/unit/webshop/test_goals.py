"""Prices, goals and draws, compared with the original's recordings and with their rules."""

import json
import lzma
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.goal import Goal, GoalKind, GoalTable
from services.env_server.environments.webshop.goal_building import (
    SHUFFLE_SEED,
    write_drawn_goals,
    write_recorded_goals,
)
from services.env_server.environments.webshop.goals import (
    combination,
    combinations,
    draw_distinct,
    draw_session,
    open_goal_table,
)
from services.env_server.environments.webshop.prices import NO_CAP, cap_text, draw_cap, draw_prices, recorded_prices
from services.env_server.environments.webshop.product import Instruction, Product
from tests.data_paths import real_data
from tests.webshop_recorded import recorded_products

PRICE_SEED = 20240607


@cache
def recorded_goals() -> dict[str, Any]:
    """``goals.json``."""
    with lzma.open(real_data("webshop/goals.json.xz"), "rt", encoding="utf-8") as file:
        return json.load(file)  # type: ignore[no-any-return]


def recorded_draws() -> dict[str, Any]:
    """``session_goldens.json``."""
    return json.loads(real_data("webshop/session_goldens.json").read_text("utf-8"))  # type: ignore[no-any-return]


def drawn_table(folder: Path, products: Sequence[Product], kind: GoalKind, seed: int = PRICE_SEED) -> GoalTable:
    """The goals of a kind, drawn from products that are in memory."""
    random = Random(seed)
    write_drawn_goals(folder, products, draw_prices(products, random), random)
    return open_goal_table(folder, kind, products.__getitem__)


@pytest.fixture(params=["drawn", "recorded"])
def table_form(request: pytest.FixtureRequest) -> str:
    """Both forms that a table may have."""
    return str(request.param)


def table_of(form: str, folder: Path, kind: GoalKind) -> GoalTable:
    """The recorded world's goals, in one of the forms."""
    products = recorded_products()
    if form == "drawn":
        return drawn_table(folder, products, kind)
    numbers = {product.asin: number for number, product in enumerate(products)}
    write_recorded_goals(folder, real_data("webshop/goals.json.xz"), numbers.get)
    return open_goal_table(folder, kind, products.__getitem__)


def as_recorded(goal: Goal) -> dict[str, Any]:
    """A goal under the names of ``goals.json``."""
    return {
        "goal_idx": goal.index,
        "asin": goal.asin,
        "instruction_text": goal.instruction,
        "attributes": list(goal.attributes),
        "goal_options": list(goal.options) if isinstance(goal.options, tuple) else dict(goal.options),
        "price_upper": goal.price_upper,
        "query": goal.query,
        "category": goal.category,
        "product_category": goal.product_category,
        "name": goal.title,
        "weight": goal.weight,
    }


def test_prices_are_those_that_the_original_drew() -> None:
    products = recorded_products()
    recorded = recorded_prices(real_data("webshop/prices.json"), products)
    assert draw_prices(products, Random(PRICE_SEED)) == recorded
    assert draw_prices(products, Random(PRICE_SEED + 1)) != recorded


@pytest.mark.parametrize(("kind", "count"), [(GoalKind.SYNTHETIC, 6910), (GoalKind.HUMAN, 13)])
def test_goals_are_those_of_the_original_in_their_order(
    tmp_path: Path, table_form: str, kind: GoalKind, count: int
) -> None:
    table = table_of(table_form, tmp_path, kind)
    assert len(table) == count
    for index, recorded in enumerate(recorded_goals()[kind]):
        goal = table.goal(index)
        expected = {name: value for name, value in recorded.items() if name != "pre_shuffle_idx"}
        assert as_recorded(goal) == expected
        assert goal.kind is kind
        if isinstance(goal.options, dict):
            assert list(goal.options) == list(recorded["goal_options"])


def test_the_title_nouns_of_a_goal_are_its_products(tmp_path: Path, table_form: str) -> None:
    table = table_of(table_form, tmp_path, GoalKind.HUMAN)
    nouns = {product.asin: product.title_nouns for product in recorded_products()}
    assert all(table.goal(index).title_nouns == nouns[table.goal(index).asin] for index in range(len(table)))


@pytest.mark.parametrize("kind", list(GoalKind))
def test_sessions_without_a_goal_draw_what_the_original_draws(tmp_path: Path, table_form: str, kind: GoalKind) -> None:
    table = table_of(table_form, tmp_path, kind)
    for run in recorded_draws()["seeded"][kind]:
        random = Random(run["seed"])
        for expected in run["resets"]:
            assert draw_session(table, random) == (expected["session"], expected["goal_idx"])
    random = after_construction(len(table))
    for expected in recorded_draws()["fresh"][kind]:
        assert draw_session(table, random) == (expected["session"], expected["goal_idx"])


@pytest.mark.parametrize("kind", list(GoalKind))
def test_a_limit_leaves_the_goals_that_the_original_keeps(tmp_path: Path, kind: GoalKind) -> None:
    table = drawn_table(tmp_path, recorded_products(), kind)
    for count, expected in recorded_draws()["limit_goals"][kind].items():
        if int(count) < len(table):
            assert draw_distinct(table, after_construction(len(table)), int(count)) == expected


def after_construction(goals: int) -> Random:
    """The generator as the original's server leaves it: seeded for the shuffle of the goals, which it has done."""
    random = Random(SHUFFLE_SEED)
    random.shuffle(list(range(goals)))
    return random
