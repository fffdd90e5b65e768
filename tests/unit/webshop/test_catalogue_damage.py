"""Damage to a catalogue is named, an interrupted build leaves none, and nothing is overwritten."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME, read_manifest, verify_files
from services.env_server.environments.webshop.catalogue.open import (
    open_world,
)
from services.env_server.environments.webshop.generated import generate_catalogue
from services.env_server.environments.webshop.generator import RICH, SIMPLE
from services.env_server.environments.webshop.product import Product
from tests.webshop_catalogue import GivenSource

pytestmark = pytest.mark.usefixtures("own_cache")


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
