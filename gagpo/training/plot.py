"""The learning curve of a run, as a picture."""

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a server has no screen
from matplotlib import pyplot

from gagpo.training.records import StepMetrics
from shared.files import write_atomically
from shared.schemas.evaluation import EvaluationReport

_SMOOTHING = 3


def plot_learning_curve(
    metrics: Sequence[StepMetrics],
    before: EvaluationReport | None,
    after: EvaluationReport | None,
    title: str,
    out: Path,
) -> None:
    """Success over training steps, with the held-out evaluations and their 95% intervals, and the mean length."""
    figure, (success, length) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    steps = [row.step + 1 for row in metrics]
    rates = [100 * row.success_rate for row in metrics]
    success.plot(steps, rates, color="tab:blue", alpha=0.3, linewidth=1)
    success.plot(steps, _smooth(rates), color="tab:blue", label="training episodes (mean of 3 steps)")
    last = steps[-1] if steps else 0
    for report, step, label in ((before, 0, "held-out games, before"), (after, last, "held-out games, after")):
        if report is not None:
            _evaluation(success, report, step, label)
    success.set(xlabel="training step", ylabel="success, %", ylim=(0, 100), title="Success")
    success.legend(loc="lower right", frameon=False)
    lengths = [row.mean_episode_length for row in metrics]
    length.plot(steps, lengths, color="tab:green", alpha=0.3, linewidth=1)
    length.plot(steps, _smooth(lengths), color="tab:green")
    length.set(xlabel="training step", ylabel="steps", ylim=(0, None), title="Mean episode length")
    for axes in (success, length):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    pyplot.close(figure)
    write_atomically(out, picture.getvalue())


def _evaluation(axes: pyplot.Axes, report: EvaluationReport, step: int, label: str) -> None:
    low, high = report.success_interval.low, report.success_interval.high
    rate = report.success_rate
    spread = [[100 * (rate - low)], [100 * (high - rate)]]
    colour = "tab:red" if step == 0 else "tab:orange"
    axes.errorbar([step], [100 * rate], yerr=spread, fmt="o", capsize=4, color=colour, label=f"{label}: {rate:.0%}")


def _smooth(values: Sequence[float]) -> list[float]:
    """Mean over the last few steps."""
    windows = (values[max(0, end - _SMOOTHING) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]
