"""The official files of WebShop, put together again from the recorded products."""

import json
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from services.env_server.environments.webshop.official import OfficialFiles
from services.env_server.environments.webshop.product import Product
from tests.data_paths import real_data

# The one product of the recording whose scraped page had no price cannot be told from one that costs a hundred dollars.
_UNLISTED = (100.0,)


def raw_product(product: Product) -> dict[str, Any]:
    """A product as ``items_shuffle*.json`` has it, with the fields that nothing here reads among them."""
    options = {
        name.title(): [
            {"value": f" {value.replace(' | ', '/').upper()} ", "image": None, "url": "x"} for value in values
        ]
        for name, values in product.options.items()
    }
    return {
        "asin": product.asin,
        "category": product.category,
        "query": f" {product.query.title()} ",
        "product_category": product.product_category,
        "name": product.title,
        "full_description": product.description,
        "small_description": list(product.bullets) if len(product.bullets) != 1 else product.bullets[0],
        "pricing": "" if product.pricing == _UNLISTED else "".join(f"${price:,}" for price in product.pricing),
        "customization_options": {**options, "Left Out": None} if options else None,
        "images": [product.main_image, "https://example.org/second.jpg"],
        "brand": float("nan"),
        "product_information": {"Weight": "1 pound [approx.]"},
        "total_reviews": "",
    }


def write_official(
    folder: Path, items: Iterable[Mapping[str, Any]], attributes: Mapping[str, Any], human: Mapping[str, Any]
) -> OfficialFiles:
    """Write the three files."""
    files = OfficialFiles(
        folder / "items_shuffle_1000.json", folder / "items_ins_v2_1000.json", folder / "items_human_ins.json"
    )
    contents = (list(items), attributes, human)
    for path, content in zip(files.present(), contents, strict=True):
        path.write_text(json.dumps(content), "utf-8")
    return files


def official_of(products: Iterable[Product], folder: Path) -> OfficialFiles:
    """The official files that the recorded products came from; skips the calling test where the data is not there."""
    products = list(products)
    with lzma.open(real_data("webshop/items_ins_v2_1000.json.xz")) as file:
        attributes = json.load(file)
    human = {
        product.asin: [
            {
                "instruction": one.text,
                "instruction_attributes": list(one.attributes),
                "instruction_options": list(one.options),
                "worker_id": "x",
            }
            for one in product.human
        ]
        + [{"instruction": "whatever", "instruction_attributes": [], "instruction_options": []}]
        for product in products
        if product.human
    }
    return write_official(folder, map(raw_product, products), attributes, human)
