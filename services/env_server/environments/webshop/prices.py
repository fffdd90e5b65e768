"""Prices that count for the reward, and the price caps of goals: both drawn as the original draws them.

The original seeds one generator, draws the prices of all products in catalogue order, then the caps of its goals.
A listed range is what makes a price random: pages show the range, the reward knows one price in it.
"""

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field, TypeAdapter

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.data_files import read_checked
from services.env_server.environments.webshop.product import Product

UNLISTED = 100.0
"""The price of a product without a listed one."""
NO_CAP = 1_000_000.0
"""The cap of a product too dear for two candidates; such a goal's text names no price."""
_CANDIDATES = range(10, 1000, 10)
_CHOSEN_FROM = 4
_PRICES = TypeAdapter(dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]])


def draw_price(pricing: Sequence[float], random: Random) -> float:
    """The price of a product: the listed one, or one drawn between the two ends of a listed range."""
    if not pricing:
        return UNLISTED
    return pricing[0] if len(pricing) == 1 else random.uniform(pricing[0], pricing[1])


def draw_prices(products: Iterable[Product], random: Random) -> "array[float]":
    """The prices of all products, in catalogue order, at eight bytes each."""
    return array("d", (draw_price(product.pricing, random) for product in products))


def recorded_prices(path: Path, products: Iterable[Product]) -> "array[float]":
    """The prices that ``prices.json`` (or ``prices.json.xz``: asin → price in dollars) gives all products.

    Raises `EnvironmentDataError` that names the file and what is wrong with it.
    """
    prices = read_checked(path, _PRICES, "it must be one JSON object of asins and their prices in dollars")
    found = array("d")
    for product in products:
        price = prices.get(product.asin)
        if price is None:
            raise EnvironmentDataError(f"{path}: {product.asin} is missing; every product needs its price there")
        found.append(price)
    return found


def draw_cap(price: float, random: Random) -> float:
    """A cap for a product's price: the larger of two round sums drawn from the next four above it.

    So a cap is never the smallest sum above the price. `NO_CAP` where there are not two sums above it.
    """
    above = [amount for amount in _CANDIDATES if amount > price][:_CHOSEN_FROM]
    return float(max(random.sample(above, 2))) if len(above) >= 2 else NO_CAP


def cap_text(cap: float) -> str:
    """How a goal's text ends because of its cap."""
    return f", and price lower than {cap:.2f} dollars" if cap < NO_CAP else ""
