"""Which option values of a product to choose so that as many as possible of a goal's options are met."""

from collections.abc import Collection, Mapping, Sequence
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
    """Values of some options, and what they cost; the smaller the better."""

    other_words: int
    """How many are not in the goal's own words."""
    clicks: int
    values: tuple[tuple[str, str], ...]

    def extended(self, name: str, value: str, *, other_words: bool) -> "_Partial":
        """With a value of one more option."""
        return _Partial(self.other_words + other_words, self.clicks + 1, (*self.values, (name, value)))


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
    """The choice that meets most of a goal's options; where several do, the one nearest to the goal's own words.

    A synthetic goal names options and values. They are chosen as they are named where that meets everything, even if
    fewer of them would (``7`` is a match for ``7 wide`` as well), as a person would do it.
    """
    wanted, values = wanted_options(goal), offered(product)
    if isinstance(goal.options, Mapping):
        named = {name: goal.options[name] for name in values if goal.options.get(name) in values[name]}
        if all(any(value_matches(option, value) for value in named.values()) for option in wanted):
            return named
        own_words = frozenset(goal.options.values())
    else:
        own_words = frozenset(goal.options)
    return _cover(wanted, values, own_words)


def _cover(wanted: Sequence[str], values: Mapping[str, Sequence[str]], own_words: Collection[str]) -> Choice:
    """Go through the options; keep the best partial choice for each set of wanted options that are met."""
    best: dict[int, _Partial] = {0: _Partial(0, 0, ())}
    for name, of_name in values.items():
        useful = _useful(wanted, of_name, own_words)
        for met, partial in list(best.items()):
            for more, value in useful.items():
                longer = partial.extended(name, value, other_words=value not in own_words)
                if met | more not in best or longer < best[met | more]:
                    best[met | more] = longer
    met = min(best, key=lambda met: (len(wanted) - met.bit_count(), best[met]))
    return dict(best[met].values)


def _useful(wanted: Sequence[str], values: Sequence[str], own_words: Collection[str]) -> Mapping[int, str]:
    """For each set of wanted options (a bit each) that one value can meet, the value to choose."""
    useful: dict[int, str] = {}
    for value in sorted(values, key=lambda value: value not in own_words):
        met = sum(1 << place for place, option in enumerate(wanted) if value_matches(option, value))
        if met:
            useful.setdefault(met, value)
    return useful
