"""What another algorithm would have given the same recorded groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.trainer.algorithms import algorithm_of
from services.trainer.rewards import Rewards
from shared.credit_record import Floats, StoredRecord
from shared.recipe import AnyAlgorithm, GagpoSettings, GigpoSettings, GrpoSettings, PpoSettings, Recipe, RlooSettings

_KEPT = ("gamma", "similarity", "min_std")
"""Settings that mean the same to every algorithm that has them."""

_OTHERS: dict[str, type[GagpoSettings] | type[GigpoSettings] | type[GrpoSettings] | type[RlooSettings]] = {
    "gagpo": GagpoSettings,
    "gigpo": GigpoSettings,
    "grpo": GrpoSettings,
    "rloo": RlooSettings,
}
"""Those that need nothing but the groups. PPO needs a critic's values, which only its own runs have."""


_TITLES = {"gagpo": "GAGPO", "gigpo": "GiGPO", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO"}


def title_of(algorithm: str) -> str:
    """Its name as it is written in prose."""
    return _TITLES.get(algorithm, algorithm)


def others_than(algorithm: str) -> list[str]:
    """The algorithms that a group trained on with ``algorithm`` can be compared by."""
    return [name for name in _OTHERS if name != algorithm]


def settings_of(name: str, recipe: Recipe) -> AnyAlgorithm:
    """An algorithm's settings: the recipe's if it is the recipe's, else its defaults with what is common to both.

    Raises `ValueError` for an algorithm that can't be computed from groups alone.
    """
    if name == recipe.algorithm.name:
        return recipe.algorithm
    kind = _OTHERS.get(name)
    if kind is None:
        raise ValueError(f"algorithm = {name!r}: it can't be computed from groups alone; these can: {list(_OTHERS)}")
    kept = {field: getattr(recipe.algorithm, field) for field in _KEPT if hasattr(recipe.algorithm, field)}
    return kind.model_validate({field: value for field, value in kept.items() if field in kind.model_fields})


def advantages_by(name: str, record: StoredRecord, place: int, recipe: Recipe) -> Floats:
    """Â that an algorithm gives the steps of the record's ``place``-th group. Shape (S,).

    Unpacks the other groups only where its settings look at them. Raises `ValueError` as `settings_of`, and where
    ``recipe`` lacks the groups' environment; `CreditRecordError` for a damaged record.
    """
    settings = settings_of(name, recipe)
    chosen = list(record.groups) if _looks_at_batch(settings) else [record.groups[place]]
    rewards = Rewards(recipe)
    has_critic = isinstance(settings, PpoSettings)
    groups = [stored.unpack() for stored in chosen]
    batch = [
        rewards.credit_group(group, _critic_values(rewards.of(group).success, stored.credit.values))
        if has_critic
        else rewards.credit_group(group)
        for group, stored in zip(groups, chosen, strict=True)
    ]
    credits = algorithm_of(settings, recipe.min_std).credit(batch)
    return credits[chosen.index(record.groups[place])].advantages


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two algorithms' advantages of one group go together."""

    correlation: float | None
    """Pearson's; None where one of them is the same everywhere."""
    opposed: int
    """Steps that one encourages and the other discourages."""
    steps: int


def agreement(one: Floats, other: Floats) -> Agreement:
    """Compare two arrays of shape (S,)."""
    varied = len(one) > 1 and float(np.ptp(one)) > 0.0 and float(np.ptp(other)) > 0.0
    correlation = float(np.corrcoef(one, other)[0, 1]) if varied else None
    return Agreement(correlation, int(np.sum(np.sign(one) * np.sign(other) < 0)), len(one))


def _looks_at_batch(settings: AnyAlgorithm) -> bool:
    scopes: Sequence[object] = (getattr(settings, "value_pool", None), getattr(settings, "normalisation", None))
    return any(str(scope) == "batch" for scope in scopes if scope is not None)


def _critic_values(success: float, values: Floats) -> list[float]:
    """A critic's values in its own units, as `Rewards.credit_group` takes them."""
    found: list[float] = (values / success).tolist()
    return found
