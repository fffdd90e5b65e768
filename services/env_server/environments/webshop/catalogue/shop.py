"""A catalogue on disk as the `World` that sessions shop in."""

from collections.abc import Sequence
from pathlib import Path

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.catalogue.asins import AsinTable
from services.env_server.environments.webshop.catalogue.groups import GroupTable
from services.env_server.environments.webshop.catalogue.layout import CATEGORIES, GOALS, PRICES, QUERIES, SEARCH
from services.env_server.environments.webshop.catalogue.manifest import REMEDY, read_manifest
from services.env_server.environments.webshop.catalogue.mapping import map_numbers
from services.env_server.environments.webshop.catalogue.products import ProductFile
from services.env_server.environments.webshop.goal import GoalKind, GoalTable
from services.env_server.environments.webshop.goals import open_goal_table
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.search.index import FullTextIndex
from services.env_server.environments.webshop.world import SearchIndex


class Catalogue:
    """Everything memory-mapped but the labels of categories and queries. Implements `World`."""

    def __init__(self, folder: Path) -> None:
        """Open the catalogue in ``folder``, which must stay. Raises `EnvironmentDataError` where it is damaged."""
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.digest = self.manifest.digest
        try:
            self._products = ProductFile(folder)
            self._asins = AsinTable(folder)
            self._prices = map_numbers(folder / PRICES, "d")
            self._categories = GroupTable(folder, CATEGORIES)
            self._queries = GroupTable(folder, QUERIES)
            self._goals = {kind: open_goal_table(folder / GOALS, kind, self._products.product) for kind in GoalKind}
            self.index: SearchIndex = FullTextIndex.open(folder / SEARCH)
        except (OSError, ValueError) as error:
            raise EnvironmentDataError(f"{folder} cannot be opened ({error}); {REMEDY}") from error

    def __len__(self) -> int:
        """Number of products."""
        return len(self._products)

    def product(self, number: int) -> Product:
        """A product by its place. Raises IndexError beyond the ends, `EnvironmentDataError` where it is damaged."""
        return self._products.product(number)

    def number_of(self, asin: str) -> int | None:
        """The number of the product with this (upper-case) asin."""
        return self._asins.number_of(asin)

    def price(self, number: int) -> float:
        """The price that counts for the reward."""
        price: float = self._prices[number]
        return price

    def in_category(self, category: str) -> Sequence[int]:
        """All products of a category, in catalogue order; empty for an unknown one."""
        return self._categories[category]

    def with_query(self, query: str) -> Sequence[int]:
        """All products that were found with a query, in catalogue order; empty for an unknown one."""
        return self._queries[query]

    def goals(self, kind: GoalKind) -> GoalTable:
        """The goals of one kind."""
        return self._goals[kind]
