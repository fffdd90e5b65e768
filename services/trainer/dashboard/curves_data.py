"""The curves of runs as numbers: which there are, and what each shows. Nothing here draws."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from services.trainer.dashboard.downsample import Floats, largest_triangles, smoothed
from services.trainer.dashboard.metrics_file import MetricsTable, Row, names_below, number

MOST_POINTS = 240
"""Points of one line that a browser is sent: about one every two pixels of a chart."""

PHASES = ("wait", "advantages", "old_logprobs", "update", "critic", "push", "credit", "checkpoint")
"""In the order of a training step."""

SIZES = ("1", "2", "3-4", "5-8", "9-16", "17+")
"""Buckets of ``state_group_sizes``."""


class Axis(StrEnum):
    """What a chart's x axis counts."""

    STEPS = "training steps"
    ENVIRONMENT = "environment steps"
    HOURS = "hours"


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of a chart."""

    metric: str
    """Path of its number in a row."""
    label: str = ""
    """What tells it from the chart's other line; a chart's second line is dashed."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One or two metrics over the course of training."""

    key: str
    title: str
    lines: tuple[Line, ...]
    note: str = ""
    percent: bool = False
    """Shares from 0 to 1, shown as percentages."""
    whole: bool = False
    """Always all from 0% to 100%, so that charts can be compared."""
    rare: bool = False
    """Left out where none of the runs has it."""


@dataclass(frozen=True, slots=True)
class Points:
    """One line of one run, as a browser gets it."""

    run: str
    line: Line
    values: list[tuple[float, float]]
    """(x, y), x rising."""


def single(key: str, title: str, note: str = "", *, percent: bool = False, whole: bool = False) -> Chart:
    """A chart of the one metric that it is named after."""
    return Chart(key, title, (Line(key),), note, percent or whole, whole)


LEARNING = (
    single("success_rate", "Success", "share of episodes won", whole=True),
    single("mean_score", "Score", "the environment's own grade"),
    single("mean_episode_length", "Length", "steps; dotted: the expert's"),
    replace(single("length_over_optimum", "Length ÷ optimum", "of episodes won"), rare=True),
    single("mean_reward", "Reward", "of an episode, shaped"),
)
UPDATE = (
    Chart(
        "kl",
        "KL divergence",
        (Line("kl_reference", "to the reference"), Line("kl_old_new", "of the update")),
        "per token; dashed: the update's",
    ),
    single("clip_fraction", "Clip fraction", "steps that the clip silenced", percent=True),
    single("entropy", "Entropy", "nats a token"),
    single("grad_norm", "Gradient norm", "before clipping"),
)
CREDIT = (
    Chart(
        "advantages",
        "Advantage spread",
        (Line("advantage_iqr", "quartile distance"), Line("advantage_beyond_one", "share beyond 1")),
        "quartiles; dashed: beyond ±1",
    ),
    single("sibling_share", "Shared states", "steps in a state seen twice", whole=True),
    single("invalid_action_share", "Invalid actions", "share of steps", percent=True),
)
SPEED = (
    Chart(
        "staleness",
        "Staleness",
        (Line("staleness_mean", "mean"), Line("staleness_max", "highest")),
        "versions; dashed: the highest",
    ),
    single("tokens_per_s_generated", "Tokens generated", "a second of the step"),
    single("tokens_per_s_trained", "Tokens trained", "a second of the update"),
    single("seconds_total", "Seconds a step"),
)


def task_type_charts(runs: Iterable[Sequence[Row]]) -> list[Chart]:
    """Success by kind of task: one chart for each kind that any run has."""
    kinds = sorted({kind for rows in runs for kind in names_below(rows, "task_type_success")})
    return [
        Chart(f"task_type_{kind}", kind.replace("_", " "), (Line(f"task_type_success/{kind}"),), "", True, True)
        for kind in kinds
    ]


def environment_charts(runs: Iterable[Sequence[Row]]) -> list[Chart]:
    """Success by environment, where a run has more than one."""
    tables = [names_below(rows, "environments") for rows in runs]
    names = sorted({name for table in tables for name in table}) if any(len(table) > 1 for table in tables) else []
    return [
        Chart(f"environment_{name}", name, (Line(f"environments/{name}/success_rate"),), "success", True, True)
        for name in names
    ]


def x_values(table: MetricsTable, axis: Axis) -> Floats:
    """Where each row stands on the axis. Shape: [rows]."""
    if axis is Axis.STEPS:
        return np.nan_to_num(table.column("version"))
    if axis is Axis.ENVIRONMENT:
        return np.nan_to_num(table.column("environment_steps_total"))
    seconds = np.nan_to_num(table.column("seconds_total")) + np.nan_to_num(table.column("seconds_checkpoint"))
    return np.cumsum(seconds) / 3600.0


def points(
    run: str, table: MetricsTable, line: Line, axis: Axis, smoothing: float = 0.0, most: int = MOST_POINTS
) -> Points:
    """One line, smoothed, then thinned; steps without a number are left out."""
    y = table.column(line.metric)
    known = np.isfinite(y)
    x, y = x_values(table, axis)[known], smoothed(y[known], smoothing)
    kept = largest_triangles(x, y, most)
    return Points(run, line, _pairs(x[kept], y[kept]))


def is_shown(chart: Chart, tables: Iterable[MetricsTable]) -> bool:
    """Whether the page has the chart."""
    return not chart.rare or any(
        np.isfinite(table.column(line.metric)).any() for table in tables for line in chart.lines
    )


def phase_points(table: MetricsTable, axis: Axis, most: int = MOST_POINTS) -> dict[str, list[tuple[float, float]]]:
    """Phase → (x, seconds) of one run, at the same places for all phases so that they can be stacked.

    The places are those that show the whole step's time best. Phases that never took any time are left out.
    """
    x = x_values(table, axis)
    seconds = {phase: np.nan_to_num(table.column(f"seconds_{phase}")) for phase in PHASES}
    kept = largest_triangles(x, sum(seconds.values(), np.zeros(len(table))), most)
    return {phase: _pairs(x[kept], values[kept]) for phase, values in seconds.items() if values.any()}


def group_sizes(rows: Sequence[Row]) -> list[int]:
    """How many states of the latest step were visited once, twice, … (`SIZES`); empty before the first step."""
    if not rows:
        return []
    return [int(number(rows[-1], f"state_group_sizes/{size}") or 0) for size in SIZES]


def as_csv(runs: Mapping[str, Sequence[Row]], lines: Sequence[Line]) -> str:
    """Every value of a chart, neither smoothed nor thinned: one row for each run and training step."""
    head = ",".join(["run", "version", *(line.metric for line in lines)])
    return "\n".join([head, *(row for run, rows in runs.items() for row in _csv_rows(run, rows, lines))]) + "\n"


def _csv_rows(run: str, rows: Sequence[Row], lines: Sequence[Line]) -> Iterable[str]:
    for row in rows:
        values = [number(row, "version"), *(number(row, line.metric) for line in lines)]
        yield ",".join([run, *("" if value is None else f"{value:.10g}" for value in values)])


def _pairs(x: Floats, y: Floats) -> list[tuple[float, float]]:
    return [(_short(left), _short(right)) for left, right in zip(x.tolist(), y.tolist(), strict=True)]


def _short(value: float) -> float:
    """Six digits are more than a screen shows, and half of what would be sent."""
    return float(f"{value:.6g}")
