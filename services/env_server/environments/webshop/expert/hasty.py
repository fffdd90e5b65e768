"""An expert that knows how to shop but not how to judge: something to begin with, and much left to learn."""

from random import Random

from services.env_server.environments.webshop.expert.choice import Choice
from services.env_server.environments.webshop.expert.expert import BUY, PREVIOUS, Expert
from services.env_server.environments.webshop.shopping.state import PageKind, ShopState


class HastyExpert:
    """Takes whatever is listed first-hand, and whatever option values there are, with a certain probability.

    When it picks a product from a first page of results, judges whether a product is the right one, or picks an option
    value, it is hasty or else does what the expert does. In a state it always does the same, so that episodes replay.
    """

    def __init__(self, expert: Expert, seed: int, haste: float) -> None:
        """``haste`` is the probability of being hasty: 0 never, 1 always. ``seed`` decides when, and what is picked."""
        self._expert = expert
        self._seed = seed
        self._haste = haste

    @property
    def optimal_steps(self) -> int | None:
        """Of the expert that is not hasty."""
        return self._expert.optimal_steps

    def action(self, state: ShopState) -> str | None:
        """The next action; None after a purchase."""
        hasty: str | None = None
        if state.kind is PageKind.RESULTS and state.page_number == 1:
            hasty = self._pick_product(state)
        elif state.kind is PageKind.ITEM and state.product is not None and self._stays(state.product):
            hasty = self._pick_options(state.product, state.chosen())
        elif state.kind is PageKind.SUB_PAGE and state.product is not None and self._stays(state.product):
            hasty = PREVIOUS
        return hasty or self._expert.action(state)

    def _pick_product(self, state: ShopState) -> str | None:
        """A click on a product of the page that was not looked at yet."""
        listed = [asin for product, asin in self._expert.listed(state.query or "", 1) if product not in state.visited]
        dice = self._dice("product", state.query, sorted(state.visited))
        return f"click[{dice.choice(listed).lower()}]" if listed and self._is_hasty(dice) else None

    def _stays(self, product: int) -> bool:
        """Whether it takes a product for good enough."""
        return self._expert.is_good(product) or self._is_hasty(self._dice("judge", product))

    def _pick_options(self, product: int, chosen: Choice) -> str | None:
        """The next option, or the purchase; None where no option is picked in haste on this page."""
        right, values = self._expert.offer(product).choice, self._expert.offered(product)
        dice = {name: self._dice("option", product, name) for name in values}
        in_haste = {name for name in values if self._is_hasty(dice[name])}
        if not in_haste and self._expert.is_good(product):
            return None
        for name, of_name in values.items():
            value = dice[name].choice(of_name) if name in in_haste else right.get(name)
            if value is not None and chosen.get(name) != value and not (name in in_haste and name in chosen):
                return f"click[{value}]"
        return BUY

    def _is_hasty(self, dice: Random) -> bool:
        return dice.random() < self._haste

    def _dice(self, *decision: object) -> Random:
        return Random(repr((self._seed, self._expert.goal.kind.value, self._expert.goal.index, *decision)))
