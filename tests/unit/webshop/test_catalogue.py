"""A catalogue on disk: what was put in comes out, damage is named, and an interrupted build leaves none."""

import json
import multiprocessing
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue import records
from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME, read_manifest, verify_files
from services.env_server.environments.webshop.catalogue.open import (
    SMALL,
    open_configured,
    open_default,
    open_path,
    open_world,
)
from services.env_server.environments.webshop.catalogue.records import RecordFile, RecordWriter
from services.env_server.environments.webshop.generated import GeneratedSource, generate_catalogue
from services.env_server.environments.webshop.generator import RICH, SIMPLE
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.recorded import find_recorded
from tests.data_paths import real_data
from tests.webshop_official import raw_product, write_official
from tests.webshop_recorded import recorded_products

COUNT = 150


class GivenSource:
    """Products of a test."""

    kind = "generated"
    recorded = None
    total = None

    def __init__(self, products: Iterator[Product]) -> None:
        self._products = products

    def products(self) -> Iterator[Product]:
        return self._products

    def provenance(self) -> Mapping[str, str | int]:
        return {"made for": "a test"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("GAGPO_CACHE", str(cache))
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    return cache


@pytest.fixture(scope="module")
def products() -> list[Product]:
    return list(GeneratedSource(COUNT, seed=7).products())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shop") / "catalogue"
    build_catalogue(GeneratedSource(COUNT, seed=7), out, seed=7)
    return out


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "copy"))


# --- what was put in comes out ---


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


# --- digest and manifest ---


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


def test_every_file_is_checked_against_its_checksum(copy: Path) -> None:
    manifest = read_manifest(copy)
    on_disk = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert set(manifest.files) == on_disk - {FILE_NAME}
    verify_files(copy, manifest)
    for name in manifest.files:
        path = copy / name
        content = path.read_bytes()
        if not content:
            continue
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(EnvironmentDataError, match=f"{path}: the checksum differs from {FILE_NAME}'s; remove"):
            verify_files(copy, read_manifest(copy))
        path.write_bytes(content)


def test_a_file_that_was_cut_short_or_removed_is_named_at_once(copy: Path) -> None:
    for name in read_manifest(copy).files:
        path = copy / name
        content = path.read_bytes()
        path.write_bytes(content + b"x")
        with pytest.raises(EnvironmentDataError, match=f"{path} has .* bytes instead of .*damaged; remove the folder"):
            open_world(copy)
        path.unlink()
        with pytest.raises(EnvironmentDataError, match=f"{path} is missing"):
            open_world(copy)
        path.write_bytes(content)


def test_a_damaged_product_is_named_when_it_is_read(copy: Path) -> None:
    path = copy / "products.records"
    path.write_bytes(b"\x55" * path.stat().st_size)
    with pytest.raises(EnvironmentDataError, match=rf"product 3 is damaged .*gagpo data info webshop {copy} --verify"):
        open_world(copy).product(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda manifest: manifest | {"format": 99},
            "not a catalogue that this version reads .*format: Input should be 1",
        ),
        (lambda manifest: {"hello": "world"}, "not a catalogue that this version reads"),
        (lambda manifest: [], "not a catalogue that this version reads"),
    ],
)
def test_a_foreign_manifest_is_refused(copy: Path, change: Any, message: str) -> None:
    path = copy / FILE_NAME
    path.write_text(json.dumps(change(json.loads(path.read_bytes()))), "utf-8")
    with pytest.raises(EnvironmentDataError, match=message):
        open_world(copy)
    path.write_text('{"format": 1, "kin', "utf-8")
    with pytest.raises(EnvironmentDataError, match="not a catalogue that this version reads"):
        open_world(copy)
    path.unlink()
    with pytest.raises(EnvironmentDataError, match=r"is not a WebShop catalogue: it has no catalogue.json; remove"):
        open_world(copy)


# --- building ---


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, products: list[Product]) -> None:
    def breaking() -> Iterator[Product]:
        yield from islice(products, 20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_catalogue(GivenSource(breaking()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_no_catalogue_and_in_nobodys_way(tmp_path: Path, products: list[Product]) -> None:
    left = tmp_path / ".out.partial"
    (left / "goals").mkdir(parents=True)
    (left / "products.records").write_bytes(b"half")
    with pytest.raises(EnvironmentDataError, match="is not a WebShop catalogue"):
        open_world(left)
    build_catalogue(GivenSource(iter(products)), tmp_path / "out")
    assert not left.exists()
    verify_files(tmp_path / "out", read_manifest(tmp_path / "out"))


def test_two_builds_of_one_folder_do_not_mix(tmp_path: Path, products: list[Product]) -> None:
    out = tmp_path / "out"

    def with_a_second_build() -> Iterator[Product]:
        yield products[0]
        with pytest.raises(EnvironmentDataError, match="another process is writing"):
            build_catalogue(GivenSource(iter(products)), out)
        yield products[1]

    assert build_catalogue(GivenSource(with_a_second_build()), out).products == 2


def test_other_data_is_never_overwritten(built: Path, products: list[Product]) -> None:
    before = read_manifest(built)
    with pytest.raises(EnvironmentDataError, match="exists already: remove it, or name another folder"):
        build_catalogue(GivenSource(iter(products)), built)
    assert read_manifest(built) == before


def test_generating_the_same_again_does_nothing_and_other_products_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    generate_catalogue(out, 20, seed=1)
    written = (out / FILE_NAME).stat()
    generate_catalogue(out, 20, seed=1)
    assert (out / FILE_NAME).stat() == written
    for count, seed, spec in ((21, 1, RICH), (20, 2, RICH), (20, 1, SIMPLE)):
        with pytest.raises(EnvironmentDataError, match="exists already"):
            generate_catalogue(out, count, seed, spec)


@pytest.mark.parametrize(
    ("asins", "message"),
    [
        (["B1", "B2", "B1"], "asin B1 occurs twice; every product needs an asin of its own"),
        (["B12345678901"], "asin 'B12345678901' is not 1 to 10 upper-case ASCII"),
        (["b1"], "not 1 to 10 upper-case ASCII"),
        (["É"], "not 1 to 10 upper-case ASCII"),
        ([""], "not 1 to 10 upper-case ASCII"),
        ([], "no product to build a catalogue of"),
    ],
)
def test_asins_must_be_unique_and_short(
    tmp_path: Path, products: list[Product], asins: list[str], message: str
) -> None:
    given = (replace(product, asin=asin) for product, asin in zip(products, asins, strict=False))
    with pytest.raises(EnvironmentDataError, match=message):
        build_catalogue(GivenSource(given), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# --- records ---


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


# --- finding the shop ---


def test_without_data_the_server_has_a_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = open_configured()
    assert len(world) == 1000
    assert len(world.goals(GoalKind.SYNTHETIC)) > 500
    monkeypatch.setenv("WEBSHOP_DATA", "")
    assert open_configured().folder == world.folder == open_default().folder


def test_many_processes_build_the_default_shop_once(own_cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        digests = pool.map(_default_digest, range(4))
    assert len(set(digests)) == 1
    folders = [path for path in (own_cache / "webshop").iterdir() if path.is_dir()]
    assert [(folder / FILE_NAME).is_file() for folder in folders] == [True]


def _default_digest(_: int) -> str:
    return open_default().digest


def test_the_variable_may_name_a_catalogue_its_parent_or_source_files(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBSHOP_DATA", str(built))
    assert open_configured().folder == built
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "webshop").symlink_to(built)
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path / "data"))
    assert open_configured().digest == open_world(built).digest


def test_source_files_are_built_once_and_anew_when_they_change(tmp_path: Path, own_cache: Path) -> None:
    lines = [json.dumps(_recorded_line(product)) for product in GeneratedSource(30, seed=1).products()]
    file = tmp_path / "shop" / "products_30.jsonl"
    file.parent.mkdir()
    file.write_text("\n".join(lines), "utf-8")
    first, again = open_path(file.parent), open_path(file)
    assert first.folder == again.folder
    assert first.folder.is_relative_to(own_cache)
    assert (len(first), first.manifest.kind) == (30, "recorded")
    file.write_text("\n".join(lines[:29]), "utf-8")
    assert len(open_path(file.parent)) == 29


def test_a_damaged_recorded_line_is_named(tmp_path: Path) -> None:
    lines = [json.dumps(_recorded_line(product)) for product in GeneratedSource(3, seed=1).products()]
    file = tmp_path / "products.jsonl"
    file.write_text("\n".join([*lines, lines[0][:50]]), "utf-8")
    with pytest.raises(EnvironmentDataError, match=f"{file}, line 4: .*fetch the file again"):
        open_path(tmp_path)
    file.write_text(lines[0] + '\n{"asin": "B1"}', "utf-8")
    with pytest.raises(EnvironmentDataError, match=f"{file}, line 2: Object missing required field `category`"):
        open_path(tmp_path)


def test_a_large_source_is_left_to_the_command(tmp_path: Path, products: list[Product]) -> None:
    item = raw_product(products[0])
    write_official(tmp_path, [item] * (SMALL + 1), {}, {})
    with pytest.raises(
        EnvironmentDataError, match=rf"more than 20,000 .*`gagpo data build webshop {tmp_path} --out DIR`"
    ):
        open_path(tmp_path)


def test_a_place_without_a_shop_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, message in (
        (tmp_path / "gone", "gone does not exist"),
        (tmp_path, r"neither a catalogue \(catalogue.json\)"),
    ):
        monkeypatch.setenv("WEBSHOP_DATA", str(path))
        with pytest.raises(EnvironmentDataError, match=f"WEBSHOP_DATA: .*{message}.*`gagpo data generate webshop`"):
            open_configured()


def _recorded_line(product: Product) -> dict[str, Any]:
    fields = ("asin", "category", "query", "product_category", "description", "bullets", "pricing", "price_tag")
    more = ("attributes", "rating", "main_image", "title_nouns")
    return {name: getattr(product, name) for name in fields + more} | {
        "name": product.title,
        "options": dict(product.options),
    }
