"""The learning curve of a run, as a picture."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gagpo.training.records import EpisodeMetrics, StepMetrics
from shared.files import write_atomically
from shared.schemas.evaluation import EnvironmentFigures, EvaluationReport, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMOOTHING = 3
_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink")


@dataclass(frozen=True, slots=True)
class _Curve:
    """What is drawn of one environment."""

    name: str
    colour: str
    rows: list[tuple[int, EpisodeMetrics]]
    """Training step from 1, and its metrics; a step without a group of this environment has none."""
    held_out: list[tuple[int, EnvironmentFigures]]
    """Training step, and the evaluation after it."""

    @property
    def graded(self) -> bool:
        return any(row.graded for _, row in self.rows) or any(figures.graded for _, figures in self.held_out)


def plot_learning_curve(
    metrics: Sequence[StepMetrics],
    before: EvaluationReport | None,
    after: EvaluationReport | None,
    title: str,
    out: Path,
) -> None:
    """Success (and score, dashed) over training steps with the held-out evaluations' 95% intervals, and the length.

    One line for each environment, held-out evaluations as points.
    """
    from matplotlib.figure import Figure  # a third of what every command would take to start

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    success, length = figure.subplots(1, 2)
    for curve in _curves(metrics, before, after):
        _draw_outcomes(success, curve)
        _draw(length, curve, lambda row: row.mean_episode_length, "-")
    success.set(
        xlabel="training step", ylabel="%", ylim=(0, 100), title="Success, and score where there is one (dashed)"
    )
    if not any(line.get_linestyle() == "--" for line in success.lines):
        success.set(ylabel="success, %", title="Success")
    if success.lines:
        success.legend(loc="best", frameon=False)
    length.set(xlabel="training step", ylabel="steps", ylim=(0, None), title="Mean episode length")
    for axes in (success, length):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write_atomically(out, picture.getvalue())


def _curves(
    metrics: Sequence[StepMetrics], before: EvaluationReport | None, after: EvaluationReport | None
) -> list[_Curve]:
    last = metrics[-1].step + 1 if metrics else 0
    evaluations = [(step, report) for step, report in ((0, before), (last, after)) if report is not None]
    named = [row.environments for row in metrics] + [report.environments for _, report in evaluations]
    names = list(dict.fromkeys(name for environments in named for name in environments))
    return [
        _Curve(
            name,
            _COLOURS[place % len(_COLOURS)],
            [(row.step + 1, row.environments[name]) for row in metrics if name in row.environments],
            [(step, report.environments[name]) for step, report in evaluations if name in report.environments],
        )
        for place, name in enumerate(names)
    ]


def _draw_outcomes(axes: "Axes", curve: _Curve) -> None:
    held_out = curve.held_out
    rates = [figures.success_rate for _, figures in held_out]
    _draw(axes, curve, lambda row: 100 * row.success_rate, "-", f"{curve.name}, success{_told(rates)}")
    for step, figures in held_out:
        _point(axes, step, figures.success_rate, figures.success_interval, "o", curve.colour)
    if not curve.graded:
        return
    scores = [figures.mean_score for _, figures in held_out]
    _draw(axes, curve, lambda row: 100 * row.mean_score, "--", f"{curve.name}, score{_told(scores)}")
    for step, figures in held_out:
        _point(axes, step, figures.mean_score, figures.score_interval, "D", curve.colour)


def _draw(
    axes: "Axes", curve: _Curve, value: Callable[[EpisodeMetrics], float], style: str, label: str | None = None
) -> None:
    """Each step's value, pale, and the mean of the last few, labelled."""
    steps, values = [step for step, _ in curve.rows], [value(row) for _, row in curve.rows]
    axes.plot(steps, values, style, color=curve.colour, alpha=0.3, linewidth=1)
    axes.plot(steps, _smooth(values), style, color=curve.colour, label=label)


def _point(axes: "Axes", step: int, share: float, interval: Interval | None, marker: str, colour: str) -> None:
    spread = None if interval is None else [[100 * (share - interval.low)], [100 * (interval.high - share)]]
    axes.errorbar([step], [100 * share], yerr=spread, fmt=marker, capsize=4, color=colour)


def _told(held_out: Sequence[float]) -> str:
    return f" (held out {' → '.join(f'{share:.0%}' for share in held_out)})" if held_out else ""


def _smooth(values: Sequence[float]) -> list[float]:
    """Mean over the last few steps."""
    windows = (values[max(0, end - _SMOOTHING) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]
