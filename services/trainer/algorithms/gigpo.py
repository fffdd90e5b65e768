"""GiGPO: an episode's return among its group's, and a step's among the steps from the same state (arXiv 2505.10978)."""

from collections.abc import Sequence

from services.trainer.algorithms.base import CreditGroup, GroupCredit, LossKind
from services.trainer.algorithms.grpo import relative_returns
from services.trainer.algorithms.layout import discounted_sums, lay_out
from services.trainer.algorithms.normalising import normalised, scope_means
from shared.recipe import GigpoSettings, Spread


class Gigpo:
    """GiGPO, with the standard deviations or without, on equal or on similar anchor states."""

    def __init__(self, settings: GigpoSettings, min_std: float) -> None:
        """``min_std`` is the floor of both divisors, in units of the shaped reward; groups scale it."""
        self.settings = settings
        self.min_std = None if settings.spread is Spread.MEAN_ONLY else min_std

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order.

        Of a step, ``values`` is the mean G of the steps from the same state, ``deltas`` is G less that mean, and
        ``raw`` the sum of both levels before their divisors.
        """
        omega = self.settings.omega
        row = lay_out(batch, similarity=self.settings.similarity)

        of_episode = relative_returns(row, self.min_std)[row.episode]  # Aᴱ = (R − mean) / std, over the group
        returns = discounted_sums(row.rewards, row.lengths, self.settings.gamma)  # G = Σ γⁿ r
        of_step = normalised(returns, row.states, row.sizes(), row.floors(self.min_std))  # Aˢ, over the state
        advantages = of_episode + omega * of_step  # A = Aᴱ + ω Aˢ

        values = scope_means(returns, row.states)[row.states]
        deltas = returns - values
        raw = relative_returns(row, None)[row.episode] + omega * deltas
        return row.credits(returns=returns, values=values, deltas=deltas, raw=raw, advantages=advantages)
