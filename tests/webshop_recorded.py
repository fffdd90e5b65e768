"""The recorded products of the original's 1,000-product set, as the tests of WebShop's parts use them."""

import json
import lzma
from collections.abc import Iterator
from functools import cache
from typing import Any

from services.env_server.environments.webshop.product import Instruction, Product
from tests.data_paths import real_data


def recorded_lines(relative: str) -> Iterator[Any]:
    """The JSON objects of a recorded ``.jsonl.xz`` file under ``webshop/``; skips the test where it is not there."""
    with lzma.open(real_data(f"webshop/{relative}"), "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


@cache
def recorded_products() -> tuple[Product, ...]:
    """All products, in catalogue order."""
    return tuple(map(_product, recorded_lines("products_1000.jsonl.xz")))


def _product(line: dict[str, Any]) -> Product:
    return Product(
        asin=line["asin"],
        category=line["category"],
        query=line["query"],
        product_category=line["product_category"],
        title=line["name"],
        description=line["description"],
        bullets=tuple(line["bullets"]),
        pricing=tuple(line["pricing"]),
        price_tag=line["price_tag"],
        options={name: tuple(values) for name, values in line["options"].items()},
        attributes=tuple(line["attributes"]),
        rating=line["rating"],
        main_image=line["main_image"],
        title_nouns=tuple(line["title_nouns"]),
        synthetic=(
            Instruction(line["instruction"], tuple(line["instruction_attributes"])) if "instruction" in line else None
        ),
        human=tuple(
            Instruction(one["instruction"], tuple(one["instruction_attributes"]), tuple(one["instruction_options"]))
            for one in line.get("human_instructions", ())
        ),
    )
