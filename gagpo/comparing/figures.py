"""The figures of a run that are compared, each one number from the run's files."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, pstdev

from gagpo.comparing.run_data import RunData, StepRecord

SMOOTHING = 3
"""Training steps that a smoothed value is the mean of: the step and those before it."""


class Topic(StrEnum):
    """The table that a figure stands in."""

    OUTCOME = "Outcome"
    OPTIMISATION = "Optimisation"
    CREDIT = "Credit"
    COST = "Cost"


class Unit(StrEnum):
    """How a figure is written."""

    SHARE = "share"
    NUMBER = "number"
    COUNT = "count"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Scale:
    """What figures of a base are measured by."""

    threshold: float
    early_steps: float
    """Environment steps that count as early learning."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One column of a table."""

    key: str
    label: str
    topic: Topic
    unit: Unit
    of: Callable[[RunData, Scale], float | None]
    """The run's value; None where it has none."""
    meaning: str


def early_area(run: RunData, scale: Scale) -> float | None:
    """Mean training success over the first ``early_steps`` environment steps: the area under the curve over its width.

    A training step's success belongs to the environment steps that its policy had learnt from, so the curve begins at 0
    with the untrained policy; between points it is straight, and after the last one level.
    """
    if not run.steps:
        return None
    end = scale.early_steps
    points = [(float(step.environment_steps_before), step.success_rate) for step in run.steps]
    inside = [point for point in points if point[0] < end]
    after = next((point for point in points if point[0] >= end), (end, points[-1][1]))
    inside.append((end, _between(inside[-1], after, end)))
    return sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(inside)) / end


def late_success(run: RunData, scale: Scale) -> float | None:
    """Mean training success over the last quarter of the training steps: where training got to, over many episodes."""
    late = run.steps[-max(SMOOTHING, math.ceil(len(run.steps) / 4)) :]
    return fmean(step.success_rate for step in late) if late else None


def steps_to_threshold(run: RunData, scale: Scale) -> float | None:
    """Environment steps learnt from when the mean success of three training steps first was at the threshold."""
    rates = [step.success_rate for step in run.steps]
    for last in range(SMOOTHING - 1, len(rates)):
        if fmean(rates[last - SMOOTHING + 1 : last + 1]) >= scale.threshold:
            return float(run.steps[last].environment_steps_before)
    return None


def _between(left: tuple[float, float], right: tuple[float, float], x: float) -> float:
    """The height at ``x`` of the straight line through two points."""
    if right[0] == left[0]:
        return right[1]
    return left[1] + (right[1] - left[1]) * (x - left[0]) / (right[0] - left[0])


def _held_out_success(run: RunData, scale: Scale) -> float | None:
    return None if run.after is None else run.after.success_rate


def _held_out_score(run: RunData, scale: Scale) -> float | None:
    return run.after.mean_score if run.after is not None and run.after.graded else None


def _won_length(run: RunData, scale: Scale) -> float | None:
    return None if run.after is None else run.after.mean_steps_won


def _length_over_optimum(run: RunData, scale: Scale) -> float | None:
    return None if run.after is None or run.after.optimum is None else run.after.optimum.mean_ratio


def _mean(of: Callable[[StepRecord], float | None]) -> Callable[[RunData, Scale], float | None]:
    """Mean over a run's training steps."""

    def figure(run: RunData, scale: Scale) -> float | None:
        values = _values(run.steps, of)
        return fmean(values) if values else None

    return figure


def _relative_spread(of: Callable[[StepRecord], float]) -> Callable[[RunData, Scale], float | None]:
    """Standard deviation over a run's training steps, in units of their mean."""

    def figure(run: RunData, scale: Scale) -> float | None:
        values = _values(run.steps, of)
        return pstdev(values) / fmean(values) if values and fmean(values) else None

    return figure


def _largest(of: Callable[[StepRecord], float]) -> Callable[[RunData, Scale], float | None]:
    return lambda run, scale: max(_values(run.steps, of), default=None)


def _last(of: Callable[[StepRecord], float]) -> Callable[[RunData, Scale], float | None]:
    """Mean over the last training steps."""

    def figure(run: RunData, scale: Scale) -> float | None:
        values = _values(run.steps, of)[-SMOOTHING:]
        return fmean(values) if values else None

    return figure


def _values(steps: Sequence[StepRecord], of: Callable[[StepRecord], float | None]) -> list[float]:
    return [value for step in steps if (value := of(step)) is not None]


FIGURES = [
    Figure(
        "held_out_success",
        "held-out success",
        Topic.OUTCOME,
        Unit.SHARE,
        _held_out_success,
        "share of the held-out episodes won after training",
    ),
    Figure(
        "held_out_score",
        "held-out score",
        Topic.OUTCOME,
        Unit.NUMBER,
        _held_out_score,
        "mean score of those episodes, where the environment grades them",
    ),
    Figure(
        "early_area",
        "early-learning area",
        Topic.OUTCOME,
        Unit.SHARE,
        early_area,
        "mean training success over the early environment steps (area under the learning curve over its width)",
    ),
    Figure(
        "late_success",
        "late success",
        Topic.OUTCOME,
        Unit.SHARE,
        late_success,
        f"mean training success over the last quarter of the training steps, {SMOOTHING} at least",
    ),
    Figure(
        "steps_to_threshold",
        "environment steps to threshold",
        Topic.OUTCOME,
        Unit.COUNT,
        steps_to_threshold,
        f"environment steps learnt from when the mean success of {SMOOTHING} training steps was first at the threshold",
    ),
    Figure(
        "won_length",
        "length, won",
        Topic.OUTCOME,
        Unit.NUMBER,
        _won_length,
        "mean length of the held-out episodes that were won",
    ),
    Figure(
        "length_over_optimum",
        "length ÷ optimum",
        Topic.OUTCOME,
        Unit.NUMBER,
        _length_over_optimum,
        "mean over those episodes of steps over the optimum's, where the environment tells it (option `expert`)",
    ),
    Figure(
        "grad_norm",
        "gradient norm",
        Topic.OPTIMISATION,
        Unit.NUMBER,
        _mean(lambda step: step.grad_norm),
        "before clipping, mean over training steps",
    ),
    Figure(
        "grad_norm_spread",
        "its spread",
        Topic.OPTIMISATION,
        Unit.NUMBER,
        _relative_spread(lambda step: step.grad_norm),
        "standard deviation of the gradient norm over training steps, in units of its mean",
    ),
    Figure(
        "kl_old_new",
        "KL old→new",
        Topic.OPTIMISATION,
        Unit.NUMBER,
        _mean(lambda step: step.kl_old_new),
        "KL(π_old ‖ π_θ) while updating, nats a token, mean over training steps",
    ),
    Figure(
        "kl_largest",
        "largest KL",
        Topic.OPTIMISATION,
        Unit.NUMBER,
        _largest(lambda step: step.kl_old_new),
        "the largest of a training step",
    ),
    Figure(
        "clip_fraction",
        "clip fraction",
        Topic.OPTIMISATION,
        Unit.SHARE,
        _mean(lambda step: step.clip_fraction),
        "share of steps whose gradient the clip took away",
    ),
    Figure(
        "entropy",
        "entropy at the end",
        Topic.OPTIMISATION,
        Unit.NUMBER,
        _last(lambda step: step.entropy),
        f"nats a token, mean over the last {SMOOTHING} training steps",
    ),
    Figure(
        "advantage_iqr",
        "IQR of Â",
        Topic.CREDIT,
        Unit.NUMBER,
        _mean(lambda step: step.advantage_iqr),
        "distance between the quartiles of the advantages",
    ),
    Figure(
        "advantage_beyond_one",
        "|Â| > 1",
        Topic.CREDIT,
        Unit.SHARE,
        _mean(lambda step: step.advantage_beyond_one),
        "share of steps with an advantage beyond ±1",
    ),
    Figure(
        "sibling_share",
        "with siblings",
        Topic.CREDIT,
        Unit.SHARE,
        _mean(lambda step: step.sibling_share),
        "share of steps whose state another episode of the group visited too",
    ),
    Figure(
        "hidden_state_share",
        "hidden states",
        Topic.CREDIT,
        Unit.SHARE,
        _mean(lambda step: step.hidden_states),
        "share of steps whose state stands for different true states, where the environment tells them",
    ),
    Figure(
        "environment_steps",
        "environment steps",
        Topic.COST,
        Unit.COUNT,
        lambda run, scale: float(run.steps[-1].environment_steps_total) if run.steps else None,
        "trained on; the training step that uses the budget up is finished",
    ),
    Figure(
        "training_steps", "training steps", Topic.COST, Unit.COUNT, lambda run, scale: float(len(run.steps)), "how many"
    ),
    Figure(
        "seconds_training",
        "seconds of training",
        Topic.COST,
        Unit.SECONDS,
        lambda run, scale: sum(step.seconds_total for step in run.steps),
        "wall clock of the training steps",
    ),
    Figure(
        "seconds_run",
        "seconds in all",
        Topic.COST,
        Unit.SECONDS,
        lambda run, scale: run.seconds,
        "with evaluations and the trainer's start, without starting servers",
    ),
]
"""In the order of the report's columns."""
