"""The oracle expert: the next action on a short way to a full reward, from wherever a session stands.

It knows the product that the goal was made from, and shops like a person who does: a search in words of the
instruction, the product on the result list, its options in page order, and Buy Now. It searches where a page has a
search bar only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice

from services.env_server.environments.webshop.expert.choice import Choice, best_choice, offered
from services.env_server.environments.webshop.expert.queries import labels, queries
from services.env_server.environments.webshop.goal import Goal
from services.env_server.environments.webshop.reward import Score, score
from services.env_server.environments.webshop.shopping.pages import PER_PAGE
from services.env_server.environments.webshop.shopping.results import Results, SearchError
from services.env_server.environments.webshop.shopping.state import PageKind, ShopState
from services.env_server.environments.webshop.world import World

FULL = 1.0
"""The reward that wins."""

_CONSIDERED = 400
"""Products that are looked at, one search after the other, where the goal's own cannot win."""

_REMEMBERED = 128
"""Searches and products of one goal."""

Route = tuple[str, ...]
"""Actions, one after the other."""

BACK_TO_SEARCH, PREVIOUS, NEXT, BUY = "click[back to search]", "click[< prev]", "click[next >]", "click[buy now]"


@dataclass(frozen=True, slots=True)
class Offer:
    """A product as an answer to the goal."""

    product: int
    asin: str
    choice: Choice
    """The options to choose."""
    total: float
    """The reward of buying it so."""

    @property
    def wins(self) -> bool:
        """Whether that is all there is to get."""
        return self.total == FULL


class Expert:
    """What to do for one goal.

    It plans when it is first asked, and remembers: one instance serves any number of sessions.
    """

    def __init__(self, world: World, goal: Goal, results: Results | None = None) -> None:
        """``results`` are the searches of ``world`` where somebody remembers them already. Nothing is searched yet."""
        self.goal = goal
        self._world = world
        self._results = results or Results(world)
        self._session = str(goal.index)
        self.offer = lru_cache(_REMEMBERED)(self._offer)
        """What a product, by its number, is worth as an answer to the goal."""
        self._place = lru_cache(_REMEMBERED)(self._find_place)

    @cached_property
    def aim(self) -> Offer:
        """What to buy: the goal's own product, or another where that one cannot get the full reward."""
        number = self._world.number_of(self.goal.asin)
        assert number is not None  # goals are made from products
        own = self.offer(number)
        if own.wins:
            return own
        others = (self.offer(product) for product in self._alternatives(number) if self.fits(product))
        return next((offer for offer in others if offer.wins), own)

    @property
    def wins(self) -> bool:
        """Whether the expert gets the full reward: not where no product that it considers fits the goal."""
        return self.aim.wins and bool(self._from_home)

    @property
    def optimal_steps(self) -> int | None:
        """Actions that the expert takes from the start; None where it does not win."""
        return len(self._from_home) if self.wins else None

    def action(self, state: ShopState) -> str | None:
        """The next action; None after a purchase, and where no search lists the product to buy."""
        return next(iter(self.route(state)), None)

    def route(self, state: ShopState) -> Route:
        """All actions from a state on, up to the purchase; none where there is nothing to do any more."""
        if state.kind is PageKind.DONE:
            return ()
        if state.kind is PageKind.HOME:
            return self._from_home
        if state.product is not None and self.is_good(state.product):
            back = (PREVIOUS,) if state.kind is PageKind.SUB_PAGE else ()
            return (*back, *self._finish(state.product, state.chosen()))
        routes = [(BACK_TO_SEARCH, *self._from_home)] if self._from_home else []
        if along := self._along(state.query or "", state.page_number or 0):
            back_to_results = {PageKind.RESULTS: 0, PageKind.ITEM: 1, PageKind.SUB_PAGE: 2}[state.kind]
            routes.insert(0, ((PREVIOUS,) * back_to_results + along))
        return min(routes, key=len, default=())

    def is_good(self, product: int) -> bool:
        """Whether a product is one to buy."""
        return product == self.aim.product or self.offer(product).wins

    def _finish(self, product: int, chosen: Choice) -> Route:
        """The actions on a product's page, where some options are chosen already."""
        offer = self.offer(product)
        if offer.wins and chosen and self._score(product, chosen).total == FULL:
            return (BUY,)
        return (*[f"click[{value}]" for name, value in offer.choice.items() if chosen.get(name) != value], BUY)

    @cached_property
    def _from_home(self) -> Route:
        """All actions from the home page on: the first of the searches that takes the fewest."""
        product = self._world.product(self.aim.product)
        best: str | None = None
        for searches in (queries(self.goal, product), labels(product)):
            for query in searches:
                place = self._place(query)
                if place is not None and (best is None or place // PER_PAGE < (self._place(best) or 0) // PER_PAGE):
                    best = query
                if place is not None and place < PER_PAGE:
                    break
            if best is not None:
                return (f"search[{best}]", *self._along(best, 1))
        return ()

    def _along(self, query: str, page: int) -> Route:
        """The actions from a page of results on; none where the search does not list the product to buy."""
        place = self._place(query)
        if place is None:
            return ()
        forward = place // PER_PAGE + 1 - page
        turns = (NEXT,) * forward if forward > 0 else (PREVIOUS,) * -forward
        return (*turns, f"click[{self.aim.asin.lower()}]", *self._finish(self.aim.product, {}))

    def listed(self, query: str, page: int) -> Sequence[tuple[int, str]]:
        """Numbers and asins of the products on a page (from 1 on) of the results of a search."""
        on_page = self._found(query)[(page - 1) * PER_PAGE : page * PER_PAGE]
        return [(product, self._world.product(product).asin) for product in on_page]

    def offered(self, product: int) -> Mapping[str, Sequence[str]]:
        """The option values of a product that can be clicked, by option, in page order."""
        return offered(self._world.product(product))

    def _find_place(self, query: str) -> int | None:
        """The place, from 0 on, of the product to buy in the results of a search."""
        return next((place for place, product in enumerate(self._found(query)) if product == self.aim.product), None)

    def _found(self, query: str) -> Sequence[int]:
        try:
            return self._results.find(query, self._session)
        except SearchError:
            return ()

    def _alternatives(self, own: int) -> Iterator[int]:
        """Products that may fit the goal as well: those that its searches list, then those of the same query."""
        searches = [*queries(self.goal, self._world.product(own)), f"<q> {self.goal.query}"]
        found = chain.from_iterable(self._found(query) for query in searches)
        return islice(found, _CONSIDERED)

    def fits(self, product: int) -> bool:
        """Whether nothing but options could be missing."""
        bought = self._score(product, {})
        return bought.price_matched and bought.attributes_matched == bought.attributes and bought.kind.factor == FULL

    def _offer(self, product: int) -> Offer:
        choice = best_choice(self.goal, self._world.product(product))
        return Offer(product, self._world.product(product).asin, choice, self._score(product, choice).total)

    def _score(self, product: int, chosen: Choice) -> Score:
        return score(self.goal, self._world.product(product), self._world.price(product), chosen)
