"""From the words of a search to the products listed."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from services.env_server.environments.webshop.world import TooManyTermsError, World

LISTED = 50
"""Hits of a full-text search."""

SEARCHES_KEPT = 4096
"""Rankings remembered: going back and forth searches anew, and the episodes of a group search alike."""

LONGEST_KEPT = 1_000
"""Characters of a query whose ranking is remembered: longer ones would fill the memory, and nobody says them twice."""


class SearchError(Exception):
    """A search at which the original raises; the message begins with the kind of its exception."""


class Results:
    """The searches of one world, shared by all its sessions."""

    def __init__(self, world: World, *, searches_kept: int = SEARCHES_KEPT) -> None:
        """Nothing is searched yet. ``searches_kept`` rankings are remembered."""
        self._world = world
        self._ranked = lru_cache(maxsize=searches_kept)(self._rank)

    def find(self, query: str, session: str) -> Sequence[int]:
        """Numbers of the products that a lower-cased query lists, in order. Raises `SearchError`.

        The first word may ask for something else than a full-text search: ``<c>`` for the products of a category,
        ``<q>`` for those that were collected with a query (both in catalogue order, all of them), ``<r>`` for some at
        random. Only a word by itself does, at the very beginning.
        """
        prefix, *rest = query.split(" ")
        match prefix:
            case "<r>":
                return self._random(session)
            case "<a>":
                raise SearchError("TypeError: a search for <a> fails, because no table of attributes is loaded")
            case "<c>":
                if not rest:
                    raise SearchError("IndexError: a search for <c> needs a category: <c> beauty")
                return self._world.in_category(rest[0].strip())
            case "<q>":
                return self._world.with_query(" ".join(rest).strip())
        return self._ranked(query) if len(query) <= LONGEST_KEPT else self._rank(query)

    def _rank(self, query: str) -> Sequence[int]:
        try:
            return tuple([hit.product for hit in self._world.index.search(query, LISTED)])
        except TooManyTermsError as error:
            raise SearchError(f"TooManyClauses: {error}") from error

    def _random(self, session: str) -> Sequence[int]:
        """Fifty products at random, the same ones whenever a session asks.

        The original draws anew for each view of the list. Here an episode has to replay to the same observations.
        """
        count = len(self._world)
        return Random(f"{self._world.digest}/{session}").sample(range(count), min(LISTED, count))
