"""What to watch about a training step's credit: does grouping find anything, and where does the gradient come from?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from services.trainer.algorithms.base import UNKNOWN, Bools, GroupCredit

SIZE_EDGES = (1, 2, 3, 5, 9, 17)
"""Lower edges of the histogram of state group sizes: 1, 2, 3–4, 5–8, 9–16, 17 and more visits."""


@dataclass(frozen=True, slots=True)
class CreditDiagnostics:
    """Numbers over all steps of a training step; 0 where there is none."""

    sibling_share: float
    """Share of steps whose state another episode visited too: elsewhere V is the episode's own return."""
    group_sizes: tuple[int, ...]
    """How many distinct states have so many visits, by `SIZE_EDGES`."""
    hidden_state_share: float
    """Share of steps that share their state with a step from another true state, among steps whose true state is
    known: there the grouping takes different situations for one."""
    true_state_known: float
    """Share of steps whose true state is known."""
    advantage_iqr: float
    """Distance between the quartiles of Â."""
    advantage_beyond_one: float
    """Share of steps with |Â| > 1."""
    all_fail_weight: float
    """Share of Σ|Â| that comes from groups in which no episode succeeded. Near 1, only penalties are learnt from."""


def diagnose(credits: Sequence[GroupCredit], all_failed: Sequence[bool]) -> CreditDiagnostics:
    """Diagnostics of a training step. ``all_failed[g]`` says that no episode of group g succeeded."""
    advantages = _joined([credit.advantages for credit in credits])
    if not len(advantages):
        return CreditDiagnostics(0.0, (0,) * len(SIZE_EDGES), 0.0, 0.0, 0.0, 0.0, 0.0)
    weights = np.array([np.abs(credit.advantages).sum() for credit in credits])
    low, high = np.percentile(advantages, (25, 75))
    hidden = _hidden(credits)
    return CreditDiagnostics(
        sibling_share=float(np.mean(_joined([credit.has_sibling for credit in credits]))),
        group_sizes=_histogram(credits),
        hidden_state_share=float(np.mean(hidden)) if len(hidden) else 0.0,
        true_state_known=len(hidden) / len(advantages),
        advantage_iqr=float(high - low),
        advantage_beyond_one=float(np.mean(np.abs(advantages) > 1)),
        all_fail_weight=float(weights[np.array(all_failed, bool)].sum() / max(weights.sum(), 1e-300)),
    )


def _histogram(credits: Sequence[GroupCredit]) -> tuple[int, ...]:
    # A state may be pooled over several groups: its number is the same in each, so count it once.
    first = np.unique(_joined([credit.states for credit in credits]), return_index=True)[1]
    sizes = _joined([credit.visits for credit in credits])[first]
    bins = np.searchsorted(SIZE_EDGES, sizes, side="right") - 1
    return tuple(np.bincount(bins, minlength=len(SIZE_EDGES)).tolist())


def _hidden(credits: Sequence[GroupCredit]) -> Bools:
    """For each step whose true state is known: does a step from another true state share its state? Shape (known,)."""
    states, truths = _joined([credit.states for credit in credits]), _joined([credit.true_states for credit in credits])
    known = truths != UNKNOWN
    states, truths = states[known], truths[known]
    lowest = np.full(int(states.max(initial=-1)) + 1, truths.max(initial=0))
    highest = np.zeros_like(lowest)
    np.minimum.at(lowest, states, truths)
    np.maximum.at(highest, states, truths)
    hidden: Bools = lowest[states] != highest[states]
    return hidden


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0)
