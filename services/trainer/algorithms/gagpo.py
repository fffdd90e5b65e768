"""GAGPO: generalised advantage estimation on values pooled over a group's visits (DESIGN §8.1, arXiv 2605.13217).

The five steps of `Gagpo.credit` are equations 1 to 5 of docs/gagpo.md, over all groups of a training step at once.
"""

from collections.abc import Sequence

import numpy as np

from services.trainer.algorithms.base import CreditGroup, Floats, GroupCredit, LossKind
from services.trainer.algorithms.grpo import relative_returns
from services.trainer.algorithms.layout import Row, discounted_sums, lay_out
from services.trainer.algorithms.normalising import normalised, without_rounding
from shared.recipe import AdvantageKind, GagpoSettings, Normalisation, Spread, Visits


def gae_lambda(settings: GagpoSettings) -> float:
    """λ of equation 4: one-step TD and the Monte-Carlo advantage are GAE's two ends."""
    return {AdvantageKind.GAE: settings.lam, AdvantageKind.TD: 0.0, AdvantageKind.MC: 1.0}[settings.advantage]


class Gagpo:
    """GAGPO with the choices of its recipe table."""

    def __init__(self, settings: GagpoSettings, min_std: float) -> None:
        """``min_std`` is the floor of the normalising divisor, in units of the shaped reward; groups scale it."""
        self.settings = settings
        self.min_std = None if settings.spread is Spread.MEAN_ONLY else min_std
        self.lam = gae_lambda(settings)

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order, with the numbers that led to them."""
        gamma = self.settings.gamma
        row = lay_out(batch, self.settings.value_pool, self.settings.similarity)

        returns = discounted_sums(row.rewards, row.lengths, gamma)  # 1: G = Σ γⁿ r
        values = self._values(row, returns)  # 2: V(k) = mean of G over the visits to k
        here, after = values[row.steps], values[row.steps + 1]
        deltas = row.rewards + gamma * after - here  # 3: δ = r + γ V(k') − V(k)
        raw = discounted_sums(deltas, row.lengths, gamma * self.lam)  # 4: A = δ + γλ A'
        advantages = self._normalised(row, raw)  # 5: Â = (A − mean) / max(std, min_std)
        if self.settings.trajectory_weight:  # not of the method: a term for the episode as a whole, to compare
            advantages = advantages + self.settings.trajectory_weight * relative_returns(row, self.min_std)[row.episode]

        return row.credits(returns=returns, values=here, deltas=deltas, raw=raw, advantages=advantages)

    def _values(self, row: Row, returns: Floats) -> Floats:
        """V at every position of the row, shape (P,); 0 after the last step unless bootstrapping finds one there."""
        counted = row.first_visits() if self.settings.visits is Visits.FIRST else np.ones(len(returns), bool)
        at = row.steps[counted]
        total = np.bincount(row.key[at], returns[counted], minlength=row.keys)
        visits = np.bincount(row.key[at], minlength=row.keys)
        sums, counts = total[row.key], visits[row.key]
        if self.settings.leave_one_out:
            own_total = np.bincount(row.own[at], returns[counted], minlength=row.pairs)
            own_visits = np.bincount(row.own[at], minlength=row.pairs)
            others = counts - own_visits[row.own]
            shared = others > 0  # elsewhere the episode's own visits are all there is
            sums = np.where(shared, sums - own_total[row.own], sums)
            counts = np.where(shared, others, counts)
        values: Floats = np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0)
        ends = row.ends if not self.settings.bootstrap_truncated else row.ends[row.terminated]
        values[ends] = 0.0
        return values

    def _normalised(self, row: Row, raw: Floats) -> Floats:
        """Â of every step, shape (S,). Where nothing but rounding differs the result is exactly 0."""
        match self.settings.normalisation:
            case Normalisation.NONE:
                return without_rounding(raw, row.group, row.sizes())
            case Normalisation.GROUP:
                scope = row.group
            case Normalisation.STATE:
                scope = row.states
            case Normalisation.BATCH:
                scope = np.zeros_like(row.group)
        return normalised(raw, scope, row.sizes(), row.floors(self.min_std))
