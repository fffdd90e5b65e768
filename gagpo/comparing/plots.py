"""The pictures of a report: learning curves, how training went, and where the variants end."""

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # a server has no screen
from matplotlib import pyplot

from gagpo.comparing.curves import COURSES, SUCCESS, Curve, CurveKind
from gagpo.comparing.numbers import BaseNumbers, VariantNumbers
from gagpo.comparing.statistics import Estimate
from shared.files import write_atomically

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's, which colour-blind people tell apart, in an order of contrast."""
_STYLES = ("-", "--", "-.", ":")
_COLUMNS = 3
_LEGEND_COLUMNS = 6
_MARGIN = 5.0
"""Percentage points shown above and below the learning curves."""


def plot_family(base: BaseNumbers, variants: Sequence[VariantNumbers], title: str, prefix: Path) -> list[Path]:
    """Draw a family of variants on a base, into files that begin with ``prefix``."""
    shown = [variant for variant in variants if variant.runs]
    learning, course = prefix.with_name(f"{prefix.name}-learning.png"), prefix.with_name(f"{prefix.name}-course.png")
    _plot_learning(base, shown, title, learning)
    _plot_course(shown, title, course)
    return [learning, course]


def _plot_learning(base: BaseNumbers, variants: Sequence[VariantNumbers], title: str, out: Path) -> None:
    """Training success over environment steps, and held-out success at the end of each variant."""
    figure, (curves, ends) = pyplot.subplots(1, 2, figsize=(12, 4.6), layout="constrained", width_ratios=(2, 1.3))
    for place, variant in enumerate(variants):
        if (curve := variant.curves.get(SUCCESS.key)) is not None:
            _draw(curves, curve, SUCCESS, place, f"{variant.label} ({len(variant.runs)})")
    heights = [float(height) for line in curves.lines for height in line.get_ydata()] or [0.0, 100.0]
    limits = max(0.0, min(heights) - _MARGIN), min(100.0, max(heights) + _MARGIN)
    curves.axhline(100 * base.threshold, color="grey", linewidth=0.8, linestyle=":")
    curves.axvline(base.early_steps, color="grey", linewidth=0.8, linestyle=":")
    curves.set(xlabel="environment steps learnt from", ylabel="%", ylim=limits, title="Training success (runs)")
    _draw_ends(ends, base, variants)
    figure.legend(*curves.get_legend_handles_labels(), loc="outside lower center", ncols=_LEGEND_COLUMNS, frameon=False)
    _finish(figure, [curves, ends], title, out)


def _draw_ends(axes: pyplot.Axes, base: BaseNumbers, variants: Sequence[VariantNumbers]) -> None:
    """Held-out success after training: each run a dot, the mean with its interval beside them."""
    for place, variant in enumerate(variants):
        if (end := variant.figures.get("held_out_success")) is not None:
            values = [100 * value for value in end.values.values()]
            axes.plot(values, [place + 0.18] * len(values), "o", color=_colour(place), alpha=0.4, markersize=4)
            axes.errorbar([100 * end.mean], [place], xerr=_spread(end), fmt="D", capsize=4, color=_colour(place))
    if base.before is not None:
        axes.axvline(100 * base.before.mean, color="grey", linewidth=0.8, linestyle=":", label="before training")
        axes.legend(loc="lower right", frameon=False, fontsize="small")
    axes.set_yticks(range(len(variants)), [variant.label for variant in variants])
    axes.invert_yaxis()
    left, right = axes.get_xlim()
    axes.set(xlabel="%", xlim=(max(0, left), min(100, right)), title="Held-out success after training")


def _plot_course(variants: Sequence[VariantNumbers], title: str, out: Path) -> None:
    """How training went: one panel for each kind of curve that there is."""
    kinds = [kind for kind in COURSES if any(kind.key in variant.curves for variant in variants)]
    rows = max(1, -(-len(kinds) // _COLUMNS))
    figure, grid = pyplot.subplots(rows, _COLUMNS, figsize=(12, 3.2 * rows), layout="constrained", squeeze=False)
    panels = list(grid.flat)
    for panel, kind in zip(panels, kinds, strict=False):
        for place, variant in enumerate(variants):
            if (curve := variant.curves.get(kind.key)) is not None:
                _draw(panel, curve, kind, place, variant.label)
        panel.set(title=kind.label, ylabel="%" if kind.percent else "", ylim=_limits(panel, kind))
    for panel in panels[len(kinds) :]:
        panel.set_visible(False)
    for panel in grid[-1]:
        panel.set_xlabel("environment steps learnt from")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=_LEGEND_COLUMNS, frameon=False)
    _finish(figure, panels, title, out)


def _draw(axes: pyplot.Axes, curve: Curve, kind: CurveKind, place: int, label: str) -> None:
    """The mean over seeds, and the band between the lowest and the highest."""
    factor = 100 if kind.percent else 1
    style = _STYLES[place // len(_COLOURS) % len(_STYLES)] if place >= len(_COLOURS) else "-"
    xs = curve.environment_steps
    axes.plot(xs, [factor * y for y in curve.mean], style, color=_colour(place), label=label)
    low, high = ([factor * y for y in edge] for edge in (curve.low, curve.high))
    axes.fill_between(xs, low, high, color=_colour(place), alpha=0.12, linewidth=0)


def _limits(axes: pyplot.Axes, kind: CurveKind) -> tuple[float, float]:
    """From zero to well above the lines: a single high peak would flatten them."""
    highest = max((float(max(line.get_ydata())) for line in axes.lines), default=0.0)
    top = min(axes.get_ylim()[1], 1.6 * highest) or 1.0
    return 0.0, min(top, 100.0) if kind.percent else top


def _spread(end: Estimate) -> float | None:
    return None if end.half_width is None else 100 * end.half_width


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _finish(figure: pyplot.Figure, panels: Sequence[pyplot.Axes], title: str, out: Path) -> None:
    for axes in panels:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    pyplot.close(figure)
    write_atomically(out, picture.getvalue())
