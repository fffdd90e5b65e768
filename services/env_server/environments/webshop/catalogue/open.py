"""Opens the shop: a catalogue, a folder of source files small enough to be built on the spot, or the default one."""

import hashlib
import os
from pathlib import Path

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.build import build_catalogue
from services.env_server.environments.webshop.catalogue.manifest import FILE_NAME, FORMAT
from services.env_server.environments.webshop.catalogue.shop import Catalogue
from services.env_server.environments.webshop.find_source import FORMS, find_source
from services.env_server.environments.webshop.generated import GeneratedSource
from services.env_server.environments.webshop.generator.spec import GENERATOR_VERSION
from services.env_server.environments.webshop.official import OfficialSource
from services.env_server.environments.webshop.recorded import RecordedSource
from services.env_server.environments.webshop.search.files import FORMAT as INDEX_FORMAT
from services.env_server.environments.webshop.source import ProductSource
from shared.files import cache_folder, locked

VARIABLE = "WEBSHOP_DATA"
SMALL = 20_000
"""Products up to which source files are built into the cache without being asked (a minute); beyond, they are not."""
SMALL_BYTES = 512 << 20
"""Files larger than that are not even counted."""
DEFAULT_PRODUCTS = 1_000
VERSIONS = f"v{FORMAT}.{INDEX_FORMAT}"
"""In the names of cached catalogues: another version of the product makes its own."""
REMEDY = (
    "`gagpo data webshop` downloads the official files, `gagpo data build webshop` makes a catalogue of them, "
    f"`gagpo data generate webshop` makes one of invented products; then set {VARIABLE} to the catalogue, or leave it "
    "unset to shop among 1,000 invented products"
)


def open_world(path: Path) -> Catalogue:
    """The built catalogue in a folder. Raises `EnvironmentDataError` that names the file which is wrong."""
    return Catalogue(path)


def open_configured() -> Catalogue:
    """What ``WEBSHOP_DATA`` points to, or the default catalogue where it is not set. Raises `EnvironmentDataError`."""
    configured = os.environ.get(VARIABLE)
    return open_path(Path(configured).expanduser()) if configured else open_default()


def open_path(path: Path) -> Catalogue:
    """The shop that a path means: a catalogue, up to `SMALL` products in source files, or a folder of ``webshop``.

    Source files are built into the cache, once; a larger set has to be built by hand. Raises `EnvironmentDataError`
    that says what was looked for.
    """
    if not path.exists():
        raise EnvironmentDataError(f"{VARIABLE}: {path} does not exist: {REMEDY}")
    for place in (path, path / "webshop"):
        if (place / FILE_NAME).exists():
            return Catalogue(place)
        if place.exists() and (source := find_source(place)):
            return _open_built(source, place)
    raise EnvironmentDataError(f"{VARIABLE}: {path} holds neither a catalogue ({FILE_NAME}) nor {FORMS}: {REMEDY}")


def open_default() -> Catalogue:
    """The catalogue for no data at all: generated into the cache on first use (seconds), then found there."""
    folder = cache_folder("webshop") / f"default-{VERSIONS}-{GENERATOR_VERSION}"
    return _open_cached(folder, GeneratedSource(DEFAULT_PRODUCTS, seed=0))


def _open_built(source: OfficialSource | RecordedSource, path: Path) -> Catalogue:
    if sum(file.stat().st_size for file in source.files) > SMALL_BYTES:
        raise _too_many(source, path)
    digest = hashlib.sha256()
    for file in source.files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    folder = cache_folder("webshop") / f"built-{VERSIONS}-{digest.hexdigest()[:32]}"
    if not folder.exists() and source.count(SMALL + 1) > SMALL:
        raise _too_many(source, path)
    return _open_cached(folder, source)


def _open_cached(folder: Path, source: ProductSource) -> Catalogue:
    """A catalogue in the cache. Several processes may call this at once: one builds, the others wait."""
    with locked(folder):
        if not folder.exists():
            build_catalogue(source, folder)
    return Catalogue(folder)


def _too_many(source: OfficialSource | RecordedSource, path: Path) -> EnvironmentDataError:
    return EnvironmentDataError(
        f"{VARIABLE}: {path} holds more than {SMALL:,} products, which takes too long to build while a server starts; "
        f"run `gagpo data build webshop {path} --out DIR` once and set {VARIABLE} to DIR"
    )
