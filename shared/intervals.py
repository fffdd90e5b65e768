"""95% confidence intervals of evaluations, whose episodes come in clusters: a task's episodes resemble one another.

A *cluster* is the list of one task's values. With one episode a task everything here is the textbook's formula for
independent values; with several the intervals are as much wider as the tasks differ.
"""

import math
from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from shared.schemas.evaluation import Interval

_Z_95 = 1.959963984540054
"""97.5% quantile of the standard normal distribution."""


def wilson_interval(successes: float, trials: float) -> Interval:
    """Wilson's score interval (E. B. Wilson, 1927) for ``trials`` > 0, which need not be a whole number."""
    share, z2 = successes / trials, _Z_95**2
    centre = share + z2 / (2 * trials)
    spread = _Z_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    # Rounding may leave the ends a hair outside of [0, 1], or on the wrong side of the share.
    low, high = max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
    return Interval(low=min(low, share), high=max(high, share))


def rate_interval(clusters: Sequence[Sequence[float]]) -> Interval:
    """Of the mean of values in [0, 1], in at least one cluster, none empty: Wilson's at the effective sample size.

    The effective size is the number of independent values whose mean would vary as much as this one does
    (E. L. Korn and B. I. Graubard, 1998); at least the clusters and at most the values are counted.
    """
    rate = fmean(chain.from_iterable(clusters))
    size = _effective_size(clusters, rate)
    return wilson_interval(rate * size, size)


def mean_interval(clusters: Sequence[Sequence[float]]) -> Interval | None:
    """The mean ± 1.96 standard errors, never beyond the lowest and the highest value; None for a single cluster."""
    if len(clusters) < 2:
        return None
    values = list(chain.from_iterable(clusters))
    mean = fmean(values)
    spread = _Z_95 * math.sqrt(_variance_of_mean(clusters, mean))
    low, high = max(min(values), mean - spread), min(max(values), mean + spread)
    return Interval(low=min(low, mean), high=max(high, mean))


def pass_at_k(episodes: int, won: int, k: int) -> float:
    """The chance that k of a task's episodes, drawn without replacement, hold a win: unbiased for pass@k.

    1 − C(n−c, k) / C(n, k) of M. Chen et al. (arXiv 2107.03374); k is at most the number of episodes.
    """
    return 1.0 - math.comb(episodes - won, k) / math.comb(episodes, k)


def _effective_size(clusters: Sequence[Sequence[float]], rate: float) -> float:
    values, tasks = sum(map(len, clusters)), len(clusters)
    alone = rate * (1 - rate)
    if tasks == 1 or alone == 0:  # nothing tells how much a task's episodes resemble one another
        return tasks
    variance = _variance_of_mean(clusters, rate)
    return min(max(alone / variance, tasks), values) if variance > 0 else values


def _variance_of_mean(clusters: Sequence[Sequence[float]], mean: float) -> float:
    """Of the mean over all values, by linearisation: m/(m−1) Σ over clusters of (Σ of its deviations)² / n²."""
    tasks, values = len(clusters), sum(map(len, clusters))
    if tasks < 2:
        return 0.0
    squares = sum((sum(cluster) - len(cluster) * mean) ** 2 for cluster in clusters)
    return tasks / (tasks - 1) * squares / values**2
