"""Where a catalogue's products come from, and what is told about that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from services.env_server.environments.webshop.product import Product


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """Prices and goals that are taken as they are instead of being drawn, so that a recording can be replayed."""

    prices: Path
    """``prices.json``: asin → price."""
    goals: Path
    """``goals.json`` or ``goals.json.xz``: the goals of both kinds, in their order."""


class ProductSource(Protocol):
    """Products that can be gone through once, with their provenance."""

    @property
    def kind(self) -> Literal["generated", "recorded", "official"]:
        """What sort of source this is."""
        ...

    @property
    def recorded(self) -> RecordedWorld | None:
        """Prices and goals to use instead of drawing them."""
        ...

    @property
    def total(self) -> int | None:
        """How many products there will be, where that is known beforehand."""
        ...

    def products(self) -> Iterator[Product]:
        """All products in catalogue order, asins unique. Raises `EnvironmentDataError` for what cannot be read."""
        ...

    def provenance(self) -> Mapping[str, str | int]:
        """For people; asked for after the products were gone through."""
        ...
