"""Statistics of paired values: one pair a task, what the first policy got on it and what the second."""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel
from scipy import stats

from shared.schemas.evaluation import Interval

_SEED = 20_260_000
"""Resampling is seeded, so that equal reports always give equal figures."""

_RESAMPLES = 9_999
Pairs = Sequence[tuple[float, float]]


class PairedTest(BaseModel):
    """A two-sided test of whether both policies do equally well."""

    name: str
    p: float
    better: int
    """Pairs in which the second is larger."""
    worse: int


def success_test(pairs: Pairs) -> PairedTest:
    """McNemar's exact test (Q. McNemar, 1947) for pairs of 0 and 1: is a flip one way as likely as the other?"""
    better, worse = _moved(pairs)
    flips = better + worse
    p = float(stats.binomtest(better, flips, 0.5).pvalue) if flips else 1.0
    return PairedTest(name="McNemar, exact", p=p, better=better, worse=worse)


def value_test(pairs: Pairs) -> PairedTest:
    """Sign-flip permutation test of the mean difference: if both did equally well, each pair's order is chance.

    Every assignment of signs is tried where there are fewer than 10,000, else as many at random.
    """
    differences = _differences(pairs)
    moved = differences[differences != 0]
    better, worse = _moved(pairs)
    p = 1.0  # as it is for a single pair, either of whose signs is as far from zero
    if len(moved) > 1:
        found = stats.permutation_test(
            (moved,),
            lambda values, axis: np.mean(values, axis=axis),
            permutation_type="samples",
            n_resamples=_RESAMPLES,
            vectorized=True,
            rng=np.random.default_rng(_SEED),
        )
        p = float(found.pvalue)
    return PairedTest(name="sign-flip permutation", p=p, better=better, worse=worse)


def bootstrap_interval(pairs: Pairs) -> Interval:
    """95% percentile interval of the mean difference (second less first) when pairs are drawn anew."""
    differences = _differences(pairs)
    drawn = np.random.default_rng(_SEED).integers(len(differences), size=(_RESAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), [0.025, 0.975])
    return Interval(low=float(low), high=float(high))


def _differences(pairs: Pairs) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([second - first for first, second in pairs], dtype=np.float64)


def _moved(pairs: Pairs) -> tuple[int, int]:
    return sum(second > first for first, second in pairs), sum(second < first for first, second in pairs)
