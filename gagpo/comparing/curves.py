"""What goes on during training, over environment steps: each seed's curve on one grid, their mean and band."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel

from gagpo.comparing.figures import SMOOTHING
from gagpo.comparing.run_data import RunData, StepRecord

_POINTS = 41


@dataclass(frozen=True, slots=True)
class CurveKind:
    """One panel of a plot."""

    key: str
    label: str
    of: Callable[[StepRecord], float | None]
    percent: bool = False


SUCCESS = CurveKind("success", "training success", lambda step: step.success_rate, percent=True)
COURSES = [
    CurveKind("episode_length", "episode length", lambda step: step.mean_episode_length),
    CurveKind("grad_norm", "gradient norm", lambda step: step.grad_norm),
    CurveKind("kl_old_new", "KL(π_old ‖ π_θ), nats a token", lambda step: step.kl_old_new),
    CurveKind("clip_fraction", "clip fraction", lambda step: step.clip_fraction, percent=True),
    CurveKind("entropy", "entropy, nats a token", lambda step: step.entropy),
    CurveKind("advantage_iqr", "IQR of Â", lambda step: step.advantage_iqr),
    CurveKind("advantage_beyond_one", "share of |Â| > 1", lambda step: step.advantage_beyond_one, percent=True),
    CurveKind("sibling_share", "steps with siblings", lambda step: step.sibling_share, percent=True),
    CurveKind("hidden_state_share", "steps with hidden states", lambda step: step.hidden_states, percent=True),
]
"""Beside `SUCCESS`: how training went."""


class Curve(BaseModel):
    """A curve's mean over runs, and the band from the lowest of them to the highest.

    Student's interval of three seeds is wider than anything to see; it stands in the tables, at the points that count.
    """

    runs: list[str]
    environment_steps: list[float]
    """Environment steps that the policy had learnt from; the last is where the shortest run ends."""
    mean: list[float]
    low: list[float]
    high: list[float]


def mean_curve(runs: Sequence[RunData], kind: CurveKind) -> Curve | None:
    """The mean of the runs' smoothed curves; None where one of them has no values."""
    lines = [_line(run, kind) for run in runs]
    if not lines or not all(xs for xs, _ in lines):
        return None
    grid = np.linspace(0.0, min(xs[-1] for xs, _ in lines), _POINTS)
    heights = np.array([np.interp(grid, xs, ys) for xs, ys in lines])
    return Curve(
        runs=[run.name for run in runs],
        environment_steps=grid.tolist(),
        mean=heights.mean(axis=0).tolist(),
        low=heights.min(axis=0).tolist(),
        high=heights.max(axis=0).tolist(),
    )


def _line(run: RunData, kind: CurveKind) -> tuple[list[float], list[float]]:
    """Environment steps learnt from, and the mean over the last few training steps."""
    told = [(step.environment_steps_before, value) for step in run.steps if (value := kind.of(step)) is not None]
    values = [value for _, value in told]
    smooth = [float(np.mean(values[max(0, end - SMOOTHING) : end])) for end in range(1, len(values) + 1)]
    return [float(x) for x, _ in told], smooth
