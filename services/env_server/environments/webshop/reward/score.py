"""The reward of a purchase: how much of what the goal asks for was bought, times whether it is the right kind of thing.

``total = kind x (attributes matched + options matched + price matched) / (attributes + options + 1)``, between 0 and 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from services.env_server.environments.webshop.goal import Goal
from services.env_server.environments.webshop.product import Product
from services.env_server.environments.webshop.reward.colours import plain_pair, plain_value
from services.env_server.environments.webshop.reward.fuzzy import matches_any
from shared.schemas.environment import InfoValue

_PATH_SEPARATOR = "›"
_NO_NOUNS_WANTED = 0.2
"""Title score of a goal whose title has no nouns: enough not to be punished, too little to count as the same kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Whether a product is the kind of thing that a goal is after."""

    same_query: bool
    same_category: bool
    """At least two parts of the category paths are common."""
    title_score: float
    """Common title nouns over wanted title nouns. Repeats count only among the wanted, so that even the wanted product
    itself may have less than 1."""

    @property
    def factor(self) -> float:
        """What the rest of the reward is multiplied with: 1, 0.5, 0.1 or 0."""
        if self.title_score == 0:
            return 0.0
        if self.title_score < 0.1:
            return 0.1
        return 1.0 if self.same_query or self.same_category or self.title_score > 0.2 else 0.5


@dataclass(frozen=True, slots=True)
class Score:
    """A reward with its parts."""

    kind: Kind
    attributes: int
    """How many the goal has."""
    attributes_matched: int
    options: int
    options_matched: int
    price_matched: bool

    @property
    def total(self) -> float:
        """The reward, 0 to 1."""
        matched = self.attributes_matched + self.options_matched + self.price_matched
        return matched / self._wanted * self.kind.factor

    @property
    def _wanted(self) -> int:
        return self.attributes + self.options + 1

    def info(self) -> dict[str, InfoValue]:
        """The parts under the original's names: ``r_*`` how far each was met, ``w_*`` its share of the whole.

        ``r_option`` and ``w_option`` are there for goals with options only.
        """
        parts: dict[str, InfoValue] = {
            "r_type": self.kind.factor,
            "r_att": self.attributes_matched / self.attributes,
            "w_att": self.attributes / self._wanted,
            "query_match": self.kind.same_query,
            "category_match": self.kind.same_category,
            "title_score": self.kind.title_score,
        }
        if self.options:
            parts |= {"r_option": self.options_matched / self.options, "w_option": self.options / self._wanted}
        return parts | {"r_price": self.price_matched, "w_price": 1 / self._wanted}


def score(goal: Goal, product: Product, price: float, chosen: Mapping[str, str]) -> Score:
    """Score the purchase of ``product`` at ``price`` with the ``chosen`` options (option name → value).

    Only the chosen values count, not under which names they stand.
    """
    offered = tuple(map(plain_value, chosen.values()))
    wanted = wanted_options(goal)
    return Score(
        kind=kind(goal, product),
        attributes=len(goal.attributes),
        attributes_matched=sum(has_attribute(product, attribute) for attribute in goal.attributes),
        options=len(wanted),
        options_matched=sum(matches_any(option, offered) for option in wanted),
        price_matched=price <= goal.price_upper,
    )


def kind(goal: Goal, product: Product) -> Kind:
    """Compare the kinds of thing: what was searched for, the category path and the nouns of the title."""
    wanted = goal.title_nouns
    common = set(wanted).intersection(product.title_nouns)
    return Kind(
        same_query=goal.query == product.query,
        same_category=len(_path(goal.product_category) & _path(product.product_category)) >= 2,
        title_score=len(common) / len(wanted) if wanted else _NO_NOUNS_WANTED,
    )


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether an attribute matches one of the product's, or stands word for word in its texts."""
    return matches_any(attribute, product.attributes) or any(attribute in text for text in _texts(product))


def wanted_options(goal: Goal) -> tuple[str, ...]:
    """What a goal's options are compared as, in their order."""
    if isinstance(goal.options, Mapping):
        return tuple(plain_pair(name, value) for name, value in goal.options.items())
    return tuple(map(plain_value, goal.options))


def value_matches(wanted: str, value: str) -> bool:
    """Whether choosing an option value gives one of the `wanted_options`."""
    return matches_any(wanted, (plain_value(value),))


@lru_cache(maxsize=4096)
def _path(product_category: str) -> frozenset[str]:
    return frozenset(part.strip() for part in product_category.split(_PATH_SEPARATOR))


def _texts(product: Product) -> tuple[str, str, str]:
    return product.title.lower(), " ".join(product.bullets).lower(), product.description.lower()
