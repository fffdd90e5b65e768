"""What tests of WebShop's catalogue build one from."""

from collections.abc import Iterator, Mapping

from services.env_server.environments.webshop.product import Product

COUNT = 150
"""Products of the catalogue that the tests share."""


class GivenSource:
    """Products of a test."""

    kind = "generated"
    recorded = None
    total = None

    def __init__(self, products: Iterator[Product]) -> None:
        self._products = products

    def products(self) -> Iterator[Product]:
        return self._products

    def provenance(self) -> Mapping[str, str | int]:
        return {"made for": "a test"}
