"""RLOO: an episode's return less the mean return of the group's other episodes (arXiv 2402.14740)."""

from collections.abc import Sequence

import numpy as np

from services.trainer.algorithms.base import CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.layout import lay_out
from services.trainer.algorithms.normalising import without_rounding
from shared.recipe import RlooSettings


class Rloo:
    """RLOO. Its advantages are in units of the shaped reward: nothing is divided by a spread."""

    def __init__(self, settings: RlooSettings) -> None:
        """Of the settings only the loss's matter."""
        self.settings = settings

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order.

        Of a step, ``returns`` is R of its whole episode, ``values`` the mean R of the others, which is R itself where
        there are none; ``deltas`` and ``raw`` are their difference.
        """
        row = lay_out(batch)
        group, episode = row.episode_group, row.episode
        returns = row.episode_sums(row.rewards)  # R = Σ r
        others = np.bincount(group)[group] - 1
        sums = np.bincount(group, returns)[group] - returns
        values = np.divide(sums, others, out=returns.copy(), where=others > 0)  # the others' mean R
        raw = returns - values
        advantages = without_rounding(raw, group, row.episode_sums(np.abs(row.rewards)))
        return row.credits(
            returns=returns[episode],
            values=values[episode],
            deltas=raw[episode],
            raw=raw[episode],
            advantages=advantages[episode],
        )
