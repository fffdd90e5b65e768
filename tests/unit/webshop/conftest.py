"""A small catalogue, built once, and a cache folder of the test's own."""

import shutil
from pathlib import Path

import pytest

from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.product import Product
from tests.webshop_catalogue import COUNT


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where catalogues that are made for this test go; no variable names another shop."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("GAGPO_CACHE", str(cache))
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    return cache


@pytest.fixture(scope="session")
def products() -> list[Product]:
    """What `built` was built from."""
    return list(GeneratedSource(COUNT, seed=7).products())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue to read."""
    out = tmp_path_factory.mktemp("shop") / "catalogue"
    build_catalogue(GeneratedSource(COUNT, seed=7), out, seed=7)
    return out


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    """The same catalogue, to be damaged."""
    return Path(shutil.copytree(built, tmp_path / "copy"))
