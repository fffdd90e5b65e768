"""GRPO: every step of an episode gets the episode's return relative to its group's (arXiv 2402.03300, §4.1.2)."""

from collections.abc import Sequence

import numpy as np

from services.trainer.algorithms.base import CreditGroup, Floats, GroupCredit, LossKind
from services.trainer.algorithms.layout import Row, lay_out
from services.trainer.algorithms.normalising import normalised, scope_means
from shared.recipe import GrpoSettings, Spread


class Grpo:
    """GRPO, with the standard deviation or without."""

    def __init__(self, settings: GrpoSettings, min_std: float) -> None:
        """``min_std`` is the floor of the normalising divisor, in units of the shaped reward; groups scale it."""
        self.settings = settings
        self.min_std = None if settings.spread is Spread.MEAN_ONLY else min_std

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order.

        Of a step, ``returns`` is R of its whole episode, ``values`` the mean R of its group, ``deltas`` and ``raw``
        their difference.
        """
        row = lay_out(batch)
        group, episode = row.episode_group, row.episode
        returns = row.episode_sums(row.rewards)  # R = Σ r
        values = scope_means(returns, group)[group]  # the group's mean R
        raw = returns - values
        advantages = relative_returns(row, self.min_std)  # Â = (R − mean) / max(std, min_std)
        return row.credits(
            returns=returns[episode],
            values=values[episode],
            deltas=raw[episode],
            raw=raw[episode],
            advantages=advantages[episode],
        )


def relative_returns(row: Row, min_std: float | None) -> Floats:
    """``(R − mean) / max(std, min_std)`` among each group's episodes, ``R − mean`` without min_std. Shape (E,)."""
    returns, sizes = row.episode_sums(row.rewards), row.episode_sums(np.abs(row.rewards))
    floor = None if min_std is None else min_std * row.scale[row.episode_group]
    return normalised(returns, row.episode_group, sizes, floor)
