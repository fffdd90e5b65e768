"""Means over seeds and their intervals."""

from collections.abc import Mapping
from math import sqrt
from statistics import fmean, stdev

from pydantic import BaseModel
from scipy.special import stdtrit

CONFIDENCE = 0.95


class Estimate(BaseModel):
    """A mean over seeds with its 95% t-interval, and what it is the mean of."""

    mean: float
    low: float | None
    """None for a single seed, which tells nothing of the spread."""
    high: float | None
    values: dict[str, float]
    """Run (or seed) → its value."""

    @property
    def n(self) -> int:
        """How many seeds there are."""
        return len(self.values)

    @property
    def half_width(self) -> float | None:
        """Of the interval, which lies evenly around the mean."""
        return None if self.high is None else self.high - self.mean

    @property
    def differs_from_zero(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def estimate(values: Mapping[str, float]) -> Estimate | None:
    """Mean and Student's t-interval, mean ± t(n−1) · s / √n; None where there is no value."""
    if not values:
        return None
    mean, count = fmean(values.values()), len(values)
    if count == 1:
        return Estimate(mean=mean, low=None, high=None, values=dict(values))
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * stdev(values.values()) / sqrt(count)
    return Estimate(mean=mean, low=mean - half, high=mean + half, values=dict(values))


def paired_difference(values: Mapping[int, float], reference: Mapping[int, float]) -> Estimate | None:
    """Mean and interval of the differences from a reference, seed by seed, over the seeds that both have.

    Seeds share their tasks, so the difference of two runs with one seed spreads less than that of any two.
    """
    return estimate({f"seed {seed}": values[seed] - reference[seed] for seed in values if seed in reference})
