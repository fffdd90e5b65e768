"""Prices, goals and draws, compared with the original's recordings and with their rules."""

import json
import lzma
import string
import tracemalloc
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


def draw_session(table: GoalTable, random: Random) -> tuple[str, int]:
    """As the original's ``reset()``: a session id of ten letters, then the index of a goal."""
    return "".join(random.choices(string.ascii_lowercase, k=10)), table.draw(random)


def draw_distinct(table: GoalTable, random: Random, count: int) -> list[int]:
    """As the original's ``limit_goals``: draws, repeats left out."""
    drawn: dict[int, None] = {}
    while len(drawn) < count:
        drawn.setdefault(table.draw(random))
    return list(drawn)


def after_construction(goals: int) -> Random:
    """The generator as the original's server leaves it: seeded for the shuffle of the goals, which it has done."""
    random = Random(SHUFFLE_SEED)
    random.shuffle(list(range(goals)))
    return random


PRODUCT = Product(
    asin="B000000001",
    category="garden",
    query="tables",
    product_category="Home › Tables",
    title="Oak table",
    description="",
    bullets=(),
    pricing=(40.0,),
    price_tag="$40.0",
    options={"size": ("small", "large"), "color": ("oak", "red", "blue")},
    attributes=("solid wood",),
    rating="N.A.",
    main_image="",
    title_nouns=("oak", "table"),
    synthetic=Instruction("Find me solid wood tables", ("solid wood",)),
    human=(
        Instruction("i want a table..", ("solid wood",), ("red",)),
        Instruction("an oak one, please", ("solid wood",)),
    ),
)


def test_synthetic_goals_go_over_all_combinations_names_sorted_and_last_name_fastest(tmp_path: Path) -> None:
    table = drawn_table(tmp_path, [PRODUCT], GoalKind.SYNTHETIC)
    expected = [{"color": color, "size": size} for color in ("oak", "red", "blue") for size in ("small", "large")]
    assert combinations(PRODUCT.options) == 6
    assert [combination(PRODUCT.options, number) for number in range(6)] == expected
    goals = [table.goal(index) for index in range(len(table))]
    assert sorted(goals, key=lambda goal: str(goal.options)) == sorted(goals, key=lambda goal: goal.instruction)
    assert Counter(str(goal.options) for goal in goals) == Counter(map(str, expected))
    assert all(goal.weight == 1 / 6 for goal in goals)
    assert goals[0].instruction.startswith("Find me solid wood tables with color: ")


def test_a_human_goal_has_weight_one_and_no_full_stops_at_its_ends(tmp_path: Path) -> None:
    table = drawn_table(tmp_path, [PRODUCT], GoalKind.HUMAN)
    goals = {goal.options: goal for goal in map(table.goal, range(len(table)))}
    assert goals[("red",)].instruction.startswith("i want a table, and price lower than ")
    assert goals[()].instruction.startswith("an oak one, please, and price")
    assert [goal.weight for goal in goals.values()] == [1.0, 1.0]


def test_values_that_repeat_give_goals_that_repeat(tmp_path: Path) -> None:
    table = drawn_table(tmp_path, [replace(PRODUCT, options={"size": ("small", "small")})], GoalKind.SYNTHETIC)
    assert table.goal(0).options == table.goal(1).options == {"size": "small"}


def test_a_product_with_an_option_without_values_has_no_goals(tmp_path: Path) -> None:
    products = [PRODUCT, replace(PRODUCT, options={"size": ()}), replace(PRODUCT, title="last")]
    table = drawn_table(tmp_path, products, GoalKind.SYNTHETIC)
    assert len(table) == 12
    assert Counter(table.goal(index).title for index in range(12)) == {"Oak table": 6, "last": 6}


def test_a_shop_without_instructions_has_empty_tables(tmp_path: Path) -> None:
    table = drawn_table(tmp_path, [replace(PRODUCT, synthetic=None, human=())], GoalKind.SYNTHETIC)
    assert len(table) == 0
    with pytest.raises(IndexError, match="no goal to draw"):
        table.draw(Random(0))
    with pytest.raises(IndexError):
        table.goal(0)


def test_goals_beyond_the_ends_do_not_exist(tmp_path: Path, table_form: str) -> None:
    table = table_of(table_form, tmp_path, GoalKind.HUMAN)
    for index in (-1, 13):
        with pytest.raises(IndexError, match=str(index)):
            table.goal(index)


def test_a_draw_is_off_by_one_unless_mended(tmp_path: Path) -> None:
    # Two kinds of attribute: one goal has a rare one and so six times the weight of each other.
    rare = replace(PRODUCT, title="rare", options={}, synthetic=Instruction("Find me rare tables", ("rare",), ()))
    table = drawn_table(tmp_path, [PRODUCT, rare], GoalKind.SYNTHETIC)
    weights = [table.goal(index).weight for index in range(7)]
    assert sorted(weights) == [1 / 6] * 6 + [1]
    random = Random(1)
    drawn = Counter(table.draw(random) for _ in range(14_000))
    expected = [0, *weights[:5], weights[5] + weights[6]]
    assert [drawn[index] / 7_000 for index in range(7)] == pytest.approx(expected, abs=0.03)
    mended = Counter(table.draw(random, mended=True) for _ in range(14_000))
    assert [mended[index] / 7_000 for index in range(7)] == pytest.approx(weights, abs=0.03)


def test_the_only_goal_can_be_drawn(tmp_path: Path) -> None:
    table = drawn_table(tmp_path, [replace(PRODUCT, options={})], GoalKind.SYNTHETIC)
    assert table.draw(Random(0)) == 0


@given(price=st.floats(0.01, 2_000), seed=st.integers(0, 2**32))
def test_a_cap_is_above_the_price_and_never_the_smallest_candidate(price: float, seed: int) -> None:
    cap = draw_cap(price, Random(seed))
    candidates = [amount for amount in range(10, 1000, 10) if amount > price][:4]
    assert cap > price
    if len(candidates) < 2:
        assert cap == NO_CAP and cap_text(cap) == ""
    else:
        assert cap in candidates[1:]
        assert cap_text(cap) == f", and price lower than {cap:.2f} dollars"


def test_prices_are_drawn_for_ranges_only() -> None:
    products = [replace(PRODUCT, pricing=pricing) for pricing in ((), (7.5,), (10.0, 20.0), (3.0,))]
    random = Random(5)
    assert draw_prices(products, Random(5)) == array("d", [100.0, 7.5, random.uniform(10, 20), 3.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"asin": "B000000000"}, r"synthetic\.1\.asin = 'B000000000': there is no such product"),
        ({"goal_idx": 7}, r"synthetic\.1\.goal_idx = 7: goals must stand in their order"),
        ({"price_upper": "cheap"}, r"synthetic\.1\.price_upper: .*'cheap'.*each goal needs"),
        ({"attributes": []}, r"synthetic\.1\.attributes: .*each goal needs"),
        ({"goal_options": ["red"]}, r"synthetic\.1\.goal_options: .*each goal needs"),
        ({"weight": -1}, r"synthetic\.1\.weight: .*-1"),
        ({"weight": None}, r"synthetic\.1\.weight: "),
    ],
)
def test_a_damaged_goal_is_an_error_that_says_where(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    random = Random(0)
    write_drawn_goals(tmp_path / "drawn", [PRODUCT], [40.0], random)
    table = open_goal_table(tmp_path / "drawn", GoalKind.SYNTHETIC, [PRODUCT].__getitem__)
    goals = [as_recorded(table.goal(index)) for index in range(3)]
    path = tmp_path / "goals.json"
    path.write_text(json.dumps({"synthetic": goals}), "utf-8")
    assert write_recorded_goals(tmp_path / "good", path, {PRODUCT.asin: 0}.get)[GoalKind.SYNTHETIC] == 3
    goals[1] |= changes
    path.write_text(json.dumps({"synthetic": goals}), "utf-8")
    with pytest.raises(EnvironmentDataError, match=message) as caught:
        write_recorded_goals(tmp_path / "bad", path, {PRODUCT.asin: 0}.get)
    assert str(path) in str(caught.value)


def test_a_goal_without_a_field_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "goals.json"
    path.write_text('{"human": [{"goal_idx": 0, "asin": "B000000001"}]}', "utf-8")
    with pytest.raises(EnvironmentDataError, match=r"goals\.json: human\.0\.instruction_text: Field required"):
        write_recorded_goals(tmp_path / "bad", path, {PRODUCT.asin: 0}.get)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"B000000001": 0}', r"prices\.json: B000000001: .*greater than 0"),
        ('{"B000000001": "free"}', r"prices\.json: B000000001: .*'free'"),
        ('{"B000000002": 1.5}', r"prices\.json: B000000001 is missing"),
        ("[1]", r"prices\.json: the whole file: .*one JSON object"),
        ('{"B0000', r"prices\.json: the whole file: Invalid JSON"),
    ],
)
def test_damaged_prices_are_an_error_that_says_where(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(content, "utf-8")
    with pytest.raises(EnvironmentDataError, match=message):
        recorded_prices(path, [PRODUCT])


def test_a_truncated_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "goals.json.xz"
    path.write_bytes(lzma.compress(b'{"synthetic": []}')[:-9])
    with pytest.raises(EnvironmentDataError, match=r"goals\.json\.xz cannot be read"):
        write_recorded_goals(tmp_path / "bad", path, {}.get)


def test_building_a_table_needs_little_memory(tmp_path: Path) -> None:
    many = replace(PRODUCT, options={"size": tuple(map(str, range(200))), "color": tuple(map(str, range(250)))})
    tracemalloc.start()
    write_drawn_goals(tmp_path, (many for _ in range(2)), [40.0] * 2, Random(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 200 * 250 * 30, "more than 30 bytes a goal"
