"""The immutable world that sessions shop in: products, the search index, prices and goals.

One per worker process, opened by memory map: thousands of sessions share it, and so do the processes of a machine.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from services.env_server.environments.webshop.goal import GoalKind, GoalTable
from services.env_server.environments.webshop.product import Product


class Hit(NamedTuple):
    """One result of a search."""

    product: int
    """Number of the product: its place in the catalogue's order."""
    score: float
    """BM25 as Lucene gives it (float32)."""


class TooManyTermsError(ValueError):
    """A query with more than 1,024 different terms, which Lucene refuses."""


class SearchIndex(Protocol):
    """Full-text search over all products, equal to the original's Lucene index hit for hit."""

    def search(self, query: str, limit: int = 50) -> Sequence[Hit]:
        """The best hits: score descending, then asin ascending. Raises `TooManyTermsError`."""
        ...


class World(Protocol):
    """Everything about a shop that no session changes."""

    digest: str
    """SHA-256 over products, prices and goals: equal digests mean equal tasks."""
    index: SearchIndex

    def __len__(self) -> int:
        """Number of products."""
        ...

    def product(self, number: int) -> Product:
        """A product by its place in the catalogue's order. Remembers those used lately."""
        ...

    def number_of(self, asin: str) -> int | None:
        """The number of the product with this (upper-case) asin."""
        ...

    def price(self, number: int) -> float:
        """The price that counts for the reward: drawn once from the listed range."""
        ...

    def in_category(self, category: str) -> Sequence[int]:
        """All products of a category, in catalogue order; empty for an unknown one."""
        ...

    def with_query(self, query: str) -> Sequence[int]:
        """All products that were found with a query, in catalogue order."""
        ...

    def goals(self, kind: GoalKind) -> GoalTable:
        """The goals of one kind; an empty table where the data has none."""
        ...
