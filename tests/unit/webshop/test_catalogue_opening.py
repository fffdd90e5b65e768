"""Which shop is opened: the one that the variable names, or one that is made."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME
from services.env_server.environments.webshop.catalogue.open import (
    SMALL,
    open_configured,
    open_default,
    open_path,
    open_world,
)
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.product import Product
from tests.webshop_official import raw_product, write_official

pytestmark = pytest.mark.usefixtures("own_cache")


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
