"""The recorded products of the original's 1,000-product set, as the tests of WebShop's parts use them."""

import json
import lzma
from collections.abc import Iterator
from functools import cache
from typing import Any

from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.recorded import RecordedSource
from tests.data_paths import real_data


def recorded_lines(relative: str) -> Iterator[Any]:
    """The JSON objects of a recorded ``.jsonl.xz`` file under ``webshop/``; skips the test where it is not there."""
    with lzma.open(real_data(f"webshop/{relative}"), "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


@cache
def recorded_products() -> tuple[Product, ...]:
    """All products, in catalogue order."""
    return tuple(RecordedSource(real_data("webshop/products_1000.jsonl.xz")).products())
