"""PPO: generalised advantage estimation on a learned critic's values (arXiv 1707.06347, eq. 11; arXiv 1506.02438)."""

from collections.abc import Sequence

import numpy as np

from services.trainer.algorithms.base import CreditGroup, Floats, GroupCredit, LossKind
from services.trainer.algorithms.layout import Row, discounted_sums, lay_out
from services.trainer.algorithms.normalising import normalised, without_rounding
from shared.recipe import Normalisation, PpoSettings


class Ppo:
    """PPO over the steps of an episode. ``raw + values`` of a step is the critic's target, the λ-return."""

    def __init__(self, settings: PpoSettings, min_std: float) -> None:
        """``min_std`` is the floor of the normalising divisor, in units of the shaped reward; groups scale it."""
        self.settings = settings
        self.min_std = min_std

    @property
    def loss(self) -> LossKind:
        """The clipped surrogate with the recipe's ratio, clips and KL term."""
        return LossKind.of(self.settings)

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, in order. ``values`` are the critic's.

        Raises `ValueError` for an episode that lacks them.
        """
        gamma, lam = self.settings.gamma, self.settings.lam
        row = lay_out(batch)

        values = _critic_values(batch, row)  # V, and 0 after the last step
        here, after = values[row.steps], values[row.steps + 1]
        deltas = row.rewards + gamma * after - here  # δ = r + γ V' − V
        raw = discounted_sums(deltas, row.lengths, gamma * lam)  # A = δ + γλ A'
        advantages = self._normalised(row, here, raw)  # Â = (A − mean) / max(std, min_std)

        returns = discounted_sums(row.rewards, row.lengths, gamma)
        return row.credits(returns=returns, values=here, deltas=deltas, raw=raw, advantages=advantages)

    def _normalised(self, row: Row, values: Floats, raw: Floats) -> Floats:
        """Â of every step. Shape (S,)."""
        size = row.sizes() + np.abs(values)
        if self.settings.normalisation is Normalisation.NONE:
            return without_rounding(raw, row.group, size)
        scope = row.group if self.settings.normalisation is Normalisation.GROUP else np.zeros_like(row.group)
        return normalised(raw, scope, size, row.floors(self.min_std))


def _critic_values(batch: Sequence[CreditGroup], row: Row) -> Floats:
    """V at every position of the row; 0 after the last step. Shape (P,)."""
    found: list[float] = []
    for group in batch:
        for number, episode in enumerate(group.episodes):
            if len(episode.values) != len(episode.rewards):
                raise ValueError(
                    f"episode {number} of task {group.task!r} has {len(episode.values)} values for its "
                    f"{len(episode.rewards)} steps: PPO needs a critic's value of the state before each step"
                )
            found += episode.values
    values = np.zeros(len(row.key))
    values[row.steps] = found
    return values
