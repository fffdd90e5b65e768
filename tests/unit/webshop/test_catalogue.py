"""A catalogue on disk: what was put in comes out, the same for the same products."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from services.env_server.environments.webshop.catalogue import records
from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import read_manifest
from services.env_server.environments.webshop.catalogue.open import (
    open_path,
    open_world,
)
from services.env_server.environments.webshop.catalogue.records import RecordFile, RecordWriter
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.recorded import find_recorded
from tests.data_paths import real_data
from tests.webshop_catalogue import COUNT, GivenSource
from tests.webshop_recorded import recorded_products

pytestmark = pytest.mark.usefixtures("own_cache")


def test_every_product_comes_out_as_it_was_put_in(built: Path, products: list[Product]) -> None:
    world = open_world(built)
    assert len(world) == COUNT
    assert [world.product(number) for number in range(COUNT)] == products
    assert [list(world.product(number).options) for number in range(COUNT)] == [list(p.options) for p in products]
    assert [world.number_of(product.asin) for product in products] == list(range(COUNT))
    for beyond in (-1, COUNT):
        with pytest.raises(IndexError):
            world.product(beyond)


def test_unknown_asins_and_labels_lead_to_nothing(built: Path, products: list[Product]) -> None:
    world = open_world(built)
    for asin in ("", "B0", products[0].asin.lower(), f"{products[0].asin}X", "ZZZZZZZZZZ", "\0" * 10, "é", "\ud800"):
        assert world.number_of(asin) is None
    assert list(world.in_category("nothing")) == list(world.with_query("")) == []


def test_labels_find_their_products_in_catalogue_order(built: Path, products: list[Product]) -> None:
    world = open_world(built)
    for product in products:
        in_category = [n for n, other in enumerate(products) if other.category == product.category]
        assert list(world.in_category(product.category)) == in_category
        assert list(world.with_query(product.query)) == [n for n, p in enumerate(products) if p.query == product.query]


def test_prices_lie_within_what_is_listed(built: Path, products: list[Product]) -> None:
    world = open_world(built)
    for number, product in enumerate(products):
        assert min(product.pricing) <= world.price(number) <= max(product.pricing)


def test_goals_and_search_lead_to_products(built: Path) -> None:
    world = open_world(built)
    for kind in GoalKind:
        table = world.goals(kind)
        assert len(table) > 0
        goal = table.goal(table.draw(Random(1)))
        assert world.number_of(goal.asin) is not None
    hits = world.index.search(world.product(5).title)
    assert hits[0].product == 5


def test_the_recorded_shop_is_what_its_files_say() -> None:
    world = open_path(real_data("webshop"))
    assert [world.product(number) for number in range(len(world))] == list(recorded_products())
    prices = json.loads(real_data("webshop/prices.json").read_bytes())
    assert {world.product(number).asin: world.price(number) for number in range(len(world))} == prices
    assert (len(world.goals(GoalKind.SYNTHETIC)), len(world.goals(GoalKind.HUMAN))) == (6910, 13)


def test_text_that_is_hard_to_store_survives(tmp_path: Path, products: list[Product]) -> None:
    odd = replace(
        products[0],
        asin="B1",
        title="",
        description="\0 \u2028 😀",
        bullets=("", " "),
        options={"Größe | ﬁt": ("1 | 2", "1 | 2", "")},
        product_category="",
        query="",
        main_image="",
        synthetic=None,
        human=(),
    )
    build_catalogue(GivenSource(iter([odd, products[1]])), tmp_path / "out")
    world = open_world(tmp_path / "out")
    assert world.product(0) == odd
    assert world.number_of("B1") == 0
    assert list(world.with_query("")) == [0]


def test_equal_products_seeds_and_goals_have_equal_digests(built: Path, tmp_path: Path) -> None:
    again = build_catalogue(GeneratedSource(COUNT, seed=7), tmp_path / "again", seed=7)
    assert again == read_manifest(built)
    other_prices = build_catalogue(GeneratedSource(COUNT, seed=7), tmp_path / "prices", seed=8)
    other_products = build_catalogue(GeneratedSource(COUNT, seed=8), tmp_path / "products", seed=7)
    assert len({again.digest, other_prices.digest, other_products.digest}) == 3


def test_the_digest_does_not_tell_how_products_and_goals_are_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = find_recorded(real_data("webshop"))
    assert source is not None
    first = build_catalogue(source, tmp_path / "first")
    monkeypatch.setattr(records, "LEVEL", 1)
    second = build_catalogue(source, tmp_path / "second")
    assert first.files != second.files
    assert first.digest == second.digest


@pytest.mark.parametrize("count", [0, 1, 7, 4_000, 4_100])
def test_records_come_out_as_they_were_put_in(tmp_path: Path, count: int) -> None:
    written = [f"record {number} of the test, with words in it".encode() * (number % 3) for number in range(count)]
    with RecordWriter(tmp_path, "test") as writer:
        for number, record in enumerate(written):
            assert len(writer) == number
            writer.append(record)
    file = RecordFile(tmp_path, "test")
    assert len(file) == count
    assert list(file) == written
