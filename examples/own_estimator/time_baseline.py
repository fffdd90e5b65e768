"""An estimator of one's own in one file: each step's return against the group's returns at the same point in time.

    A[i,t] = G[i,t] − mean of G[j,t] over the group's episodes j that took a step t

It knows nothing of states: it is what is left of a state's value where the only thing known of a state is how late it
is. With ``divide`` the result is divided by its spread over the group, as GAGPO's is.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from services.trainer.algorithms import CreditGroup, GroupCredit
from services.trainer.algorithms.layout import discounted_sums, lay_out
from services.trainer.algorithms.normalising import normalised, scope_means, without_rounding


class TimeBaselineOptions(BaseModel):
    """What a recipe may say under ``[algorithm.options]``."""

    gamma: float = Field(default=0.95, gt=0.0, le=1.0)
    """Discount per step."""
    divide: bool = True
    """Divide by the standard deviation over the group."""


class TimeBaseline:
    """The estimator."""

    Options = TimeBaselineOptions

    def __init__(self, options: TimeBaselineOptions, min_std: float) -> None:
        """``min_std`` is the least that is divided by."""
        self.options = options
        self.min_std = min_std

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        """Advantages of every group of a training step, all groups at once."""
        row = lay_out(batch)  # the steps of all episodes in one row
        returns = discounted_sums(row.rewards, row.lengths, self.options.gamma)
        time = np.concatenate([np.arange(length) for length in row.lengths] or [np.zeros(0, np.int64)])
        _, moment = np.unique(np.stack([row.group, time]), axis=1, return_inverse=True)  # number of (group, time)
        baseline = scope_means(returns, moment)[moment]
        raw = without_rounding(returns - baseline, moment, row.sizes())
        advantages = normalised(raw, row.group, row.sizes(), row.floors(self.min_std)) if self.options.divide else raw
        return row.credits(returns=returns, values=baseline, deltas=raw, raw=raw, advantages=advantages)
