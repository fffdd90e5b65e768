"""Writes a catalogue: one pass over the products as they come, then passes over what was written.

Memory stays bounded: no list of products is ever held, only about 30 bytes for each (asin, labels, offsets).
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tqdm import tqdm

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.asins import AsinError, AsinTable, AsinTableWriter
from services.env_server.environments.webshop.catalogue.groups import GroupTableWriter
from services.env_server.environments.webshop.catalogue.layout import (
    CATEGORIES,
    GOALS,
    PRICES,
    PRODUCTS,
    QUERIES,
    SEARCH,
)
from services.env_server.environments.webshop.catalogue.manifest import (
    FILE_NAME,
    FORMAT,
    FileEntry,
    Manifest,
    describe_files,
)
from services.env_server.environments.webshop.catalogue.mapping import write_numbers
from services.env_server.environments.webshop.catalogue.products import ProductFile, encode
from services.env_server.environments.webshop.catalogue.records import SUFFIXES, RecordFile, RecordWriter
from services.env_server.environments.webshop.goal import GoalKind
from services.env_server.environments.webshop.goal_building import write_drawn_goals, write_recorded_goals
from services.env_server.environments.webshop.prices import draw_prices, recorded_prices
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search.build import Document, write_index
from services.env_server.environments.webshop.search.text import indexed_text
from services.env_server.environments.webshop.source import ProductSource, RecordedWorld

SHOWN_PRODUCTS = 100_000
"""Products from which on the last part of writing the search index takes long enough to be shown."""


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """A folder beside ``out`` that takes its name at the end, or vanishes where something goes wrong.

    What a killed build left is removed by the next one. Raises `EnvironmentDataError` where ``out`` holds anything, or
    another process is writing it.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise EnvironmentDataError(f"--out {out} exists already: remove it, or name another folder")
    partial = out.with_name(f".{out.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    lock = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentDataError(f"another process is writing {out} (in {partial}): wait for it") from None
        _empty(partial)
        try:
            yield partial
            partial.replace(out)
        except BaseException:
            shutil.rmtree(partial)
            raise
    finally:
        os.close(lock)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def build_catalogue(source: ProductSource, out: Path, *, seed: int = 0) -> Manifest:
    """Write the catalogue of ``source`` into ``out``, which appears when it is complete.

    ``seed`` decides the prices within listed ranges and the price caps of goals, unless the source has recorded ones.
    Not resumable: an interrupted build starts anew. Raises `EnvironmentDataError`.
    """
    with fresh_folder(out) as folder:
        products_sha256 = _write_products(source, folder)
        products = ProductFile(folder)
        goals = _write_prices_and_goals(source.recorded, products, folder, Random(seed))
        documents = (Document(product.asin, indexed_text(product)) for product in _progress(products, "search index"))
        write_index(documents, folder / SEARCH, progress=len(products) > SHOWN_PRODUCTS)
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        files = describe_files(folder, names)
        manifest = Manifest(
            format=FORMAT,
            kind=source.kind,
            products=len(products),
            goals=goals,
            digest=_digest(products_sha256, folder, files),
            provenance={**source.provenance(), **({} if source.recorded else {"seed of prices": seed})},
            files=files,
        )
        (folder / FILE_NAME).write_text(manifest.model_dump_json(indent=1), "utf-8")
    return manifest


def _write_products(source: ProductSource, folder: Path) -> str:
    """Product records and the tables that find them; returns the SHA-256 over all records, uncompressed."""
    asins, categories, queries = AsinTableWriter(), GroupTableWriter(), GroupTableWriter()
    digest = hashlib.sha256()
    with RecordWriter(folder, PRODUCTS) as records, _refusing_bad_asins():
        for number, product in enumerate(_progress(source.products(), "products", source.total)):
            record = encode(product)
            digest.update(record)
            records.append(record)
            asins.append(product.asin)
            categories.append(product.category, number)
            queries.append(product.query, number)
        if not len(records):
            raise EnvironmentDataError("there is no product to build a catalogue of")
        asins.write(folder)
    categories.write(folder, CATEGORIES)
    queries.write(folder, QUERIES)
    return digest.hexdigest()


def _write_prices_and_goals(
    recorded: RecordedWorld | None, products: ProductFile, folder: Path, random: Random
) -> dict[GoalKind, int]:
    if recorded:
        prices = recorded_prices(recorded.prices, products)
        goals = write_recorded_goals(folder / GOALS, recorded.goals, AsinTable(folder).number_of)
    else:
        prices = draw_prices(_progress(products, "prices"), random)
        goals = write_drawn_goals(folder / GOALS, _progress(products, "goals"), prices, random)
    write_numbers(folder / PRICES, prices, "d")
    return goals


@contextmanager
def _refusing_bad_asins() -> Iterator[None]:
    try:
        yield
    except AsinError as error:
        raise EnvironmentDataError(f"{error}; every product needs an asin of its own") from None


def _digest(products: str, folder: Path, files: Mapping[str, FileEntry]) -> str:
    """The world's digest from its products, prices and goals; how they are compressed does not count."""
    digest = hashlib.sha256(products.encode())
    for name in sorted(files):
        if name == PRICES or (name.startswith(f"{GOALS}/") and Path(name).suffix not in SUFFIXES):
            digest.update(f"{name} {files[name].sha256}\n".encode())
    for path in sorted((folder / GOALS).rglob(f"*{SUFFIXES[0]}")):
        for record in RecordFile(path.parent, path.stem):
            digest.update(record)
    return digest.hexdigest()


def _progress(products: Iterable[Product], what: str, total: int | None = None) -> Iterable[Product]:
    if isinstance(products, ProductFile):
        total = len(products)
    return tqdm(products, desc=what, total=total, unit=" products", delay=1)
