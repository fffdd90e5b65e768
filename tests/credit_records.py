"""Made-up credit records for tests."""

import numpy as np

from shared.credit_record import CreditedGroup, CreditNumbers, CreditRecord
from shared.trajectory import Group
from tests.trajectories import make_group


def make_credit(group: Group, seed: int = 0) -> CreditNumbers:
    """Numbers decided by the arguments alone; equal state keys are equal states, and the last step was left out."""
    random = np.random.default_rng([seed, group.index])
    keys = [step.state_key for episode in group.episodes for step in episode.steps]
    size = len(keys)
    ratios = np.exp(random.normal(0.0, 0.1, size))
    ratios[-1:] = np.nan
    rewards, returns, values, deltas, raw, advantages = random.normal(size=(6, size))
    return CreditNumbers(
        rewards=rewards,
        returns=returns,
        values=values,
        deltas=deltas,
        raw=raw,
        advantages=advantages,
        states=np.unique(keys, return_inverse=True)[1].astype(np.int64) + 1000 * group.index,
        ratios=ratios,
        clipped=np.abs(np.nan_to_num(ratios, nan=1.0) - 1) > 0.1,
    )


def make_record(
    step: int = 0, groups: int = 2, episodes: int = 3, steps: int = 4, prompt: int = 20, action: int = 5
) -> CreditRecord:
    """A record whose content is decided by the arguments alone."""
    made = [make_group(step, index, episodes, steps, prompt, action) for index in range(groups)]
    return CreditRecord(step, step + 1, "gagpo", tuple(CreditedGroup(group, make_credit(group)) for group in made))
