"""Which option values of a product to choose so that as many as possible of a goal's options are met."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from services.env_server.environments.webshop.goal import Goal
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.reward import value_matches, wanted_options
from services.env_server.environments.webshop.shopping.action import Action, parse_action
from services.env_server.environments.webshop.shopping.page import ChooseOption
from services.env_server.environments.webshop.shopping.product_blocks import ProductBlocks

Choice = Mapping[str, str]
"""Option name → value, in page order."""


class _Partial(NamedTuple):
    """Values of some options."""

    other_words: int
    """How many are not in the goal's own words."""
    pairs: tuple[tuple[str, str], ...]

    @property
    def cost(self) -> tuple[int, int]:
        """The smaller, the better."""
        return self.other_words, len(self.pairs)


def offered(product: Product) -> Mapping[str, tuple[str, ...]]:
    """The option values that can be clicked, by the option that the click chooses, in page order.

    A value of two options chooses the last of them, and one that is called like a button is that button. A value with
    an opening bracket or a line break cannot be named in an action.
    """
    by_name: dict[str, list[str]] = {}
    for target in ProductBlocks(product).actions.targets.values():
        if isinstance(target, ChooseOption) and parse_action(f"click[{target.value}]") == Action("click", target.value):
            by_name.setdefault(target.name, []).append(target.value)
    return {name: tuple(by_name[name]) for name in product.options if name in by_name}


def best_choice(goal: Goal, product: Product) -> Choice:
    """The choice that meets most of a goal's options; where several do, one in the goal's own words, then the smallest.

    One value may meet two of them: ``vent`` is a match for ``vent kit`` as well.
    """
    wanted, values = wanted_options(goal), offered(product)
    own_words = {(name, value) for name, of_name in values.items() for value in of_name if _names(goal, name, value)}
    best = {0: _Partial(0, ())}  # for each set of wanted options, a bit each, that the options so far can meet
    for name, of_name in values.items():
        pairs = sorted(((name, value) for value in of_name), key=lambda pair: pair not in own_words)
        useful = _useful(wanted, pairs)
        for met, partial in list(best.items()):
            for more, pair in useful.items():
                longer = _Partial(partial.other_words + (pair not in own_words), (*partial.pairs, pair))
                if met | more not in best or longer.cost < best[met | more].cost:
                    best[met | more] = longer
    met = min(best, key=lambda met: (len(wanted) - met.bit_count(), best[met].cost))
    return dict(best[met].pairs)


def _names(goal: Goal, name: str, value: str) -> bool:
    """Whether a goal asks for an option value in these words."""
    return goal.options.get(name) == value if isinstance(goal.options, Mapping) else value in goal.options


def _useful(wanted: Sequence[str], pairs: Iterable[tuple[str, str]]) -> Mapping[int, tuple[str, str]]:
    """For each set of wanted options that one value can meet, the first such value."""
    useful: dict[int, tuple[str, str]] = {}
    for name, value in pairs:
        met = sum(1 << place for place, option in enumerate(wanted) if value_matches(option, value))
        if met:
            useful.setdefault(met, (name, value))
    return useful
