"""What ECharts is told: options of one look for every chart. A key that begins with ``:`` holds JavaScript."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from services.trainer.dashboard.curves_data import SIZES, Axis, Chart, Points

RUN_COLOURS = ("#3b76d6", "#d9822b", "#2f9e6e", "#b4559f", "#8a6d3b", "#c8403a", "#4aa3c7", "#7a68c9")
"""One for each run, told apart by most eyes, on light ground and on dark."""

PHASE_COLOURS = {
    "wait": "#8fb3e8",
    "advantages": "#e3b04b",
    "old_logprobs": "#b4559f",
    "update": "#3b76d6",
    "critic": "#7a68c9",
    "push": "#2f9e6e",
    "credit": "#6b7684",
    "checkpoint": "#c8403a",
}

Options = dict[str, JsonValue]

_TEXT = "getComputedStyle(document.body).getPropertyValue('--muted').trim()"
_LINE = "getComputedStyle(document.body).getPropertyValue('--line').trim()"
_CARD = "getComputedStyle(document.body).getPropertyValue('--card').trim()"
_STRONG = "getComputedStyle(document.body).getPropertyValue('--text').trim()"
_SHORT = (
    "(v) => v == null ? '–' : Math.abs(v) >= 1e4 ? Math.round(v).toLocaleString('en') : String(+(+v).toPrecision(4))"
)
_PERCENT = "(v) => v == null ? '–' : (100 * v).toFixed(1) + '%'"
_PERCENT_TICK = "(v) => +(100 * v).toPrecision(2) + '%'"
_UP_TO_ALL = "(v) => v.max === 0 ? 0.1 : v.max > 0.8 ? 1 : null"
_TICK = (
    "(v) => { const a = Math.abs(v); return a >= 1e6 ? +(v / 1e6).toPrecision(3) + 'M'"
    " : a >= 1e3 ? +(v / 1e3).toPrecision(3) + 'k' : String(+v.toPrecision(3)); }"
)


def colour(place: int) -> str:
    """Of the run at this place of the selection."""
    return RUN_COLOURS[place % len(RUN_COLOURS)]


def curve_options(
    chart: Chart,
    lines: Sequence[Points],
    colours: Mapping[str, str],
    *,
    axis: Axis = Axis.STEPS,
    faint: Sequence[Points] = (),
    levels: Mapping[str, float] | None = None,
) -> Options:
    """A chart of lines. ``faint`` are drawn behind, ``levels`` are constants of runs, drawn dotted."""
    series: list[JsonValue] = [_faint(one, colours[one.run]) for one in faint]
    series += [_line(chart, one, colours[one.run], levels) for one in lines]
    return _frame(percent=chart.percent, whole=chart.whole, counts=axis is not Axis.HOURS) | {"series": series}


def phase_options(phases: Mapping[str, Sequence[tuple[float, float]]], axis: Axis = Axis.STEPS) -> Options:
    """Time of a step by phase, stacked."""
    series: list[JsonValue] = [
        {
            "type": "line",
            "name": phase.replace("_", " "),
            "stack": "time",
            "showSymbol": len(values) == 1,
            "lineStyle": {"width": 0},
            "areaStyle": {"opacity": 0.85},
            "itemStyle": {"color": PHASE_COLOURS[phase]},
            "data": _pairs(values),
        }
        for phase, values in phases.items()
    ]
    legend: JsonValue = {
        "show": True,
        "top": 0,
        "icon": "roundRect",
        "itemWidth": 10,
        "itemHeight": 10,
        "textStyle": {":color": _TEXT},
    }
    frame = _frame(scale=False, counts=axis is not Axis.HOURS)
    return frame | {"series": series, "legend": legend, "grid": _grid(top=48)}


def histogram_options(sizes: Mapping[str, Sequence[int]], colours: Mapping[str, str]) -> Options:
    """How many states were visited how often, in each run's latest step."""
    frame = _frame(scale=False)
    axis: Options = {"type": "category", "data": list(SIZES), "axisTick": {"show": False}}
    series: list[JsonValue] = [
        {"type": "bar", "name": run, "itemStyle": {"color": colours[run], "borderRadius": 3}, "data": list(counts)}
        for run, counts in sizes.items()
    ]
    return frame | {"xAxis": axis | _axis_look(), "series": series}


def _frame(*, percent: bool = False, whole: bool = False, scale: bool = True, counts: bool = True) -> Options:
    """``whole`` shows 0% to 100%, ``scale`` lets y begin above 0, ``counts`` keeps fractions off the x axis."""
    shown = _PERCENT if percent else _SHORT
    y_axis: dict[str, JsonValue] = {
        "type": "value",
        "scale": scale,
        "splitNumber": 4,
        "splitLine": {"lineStyle": {":color": _LINE}},
        "axisLabel": {":color": _TEXT, "fontSize": 11, ":formatter": _PERCENT_TICK if percent else _TICK},
    }
    if whole:
        y_axis |= {"min": 0, "max": 1, "interval": 0.25}
    elif percent:
        y_axis |= {"min": 0, ":max": _UP_TO_ALL}
    x_axis: dict[str, JsonValue] = {"type": "value", "min": "dataMin", "max": "dataMax", "splitLine": {"show": False}}
    if counts:
        x_axis["minInterval"] = 1
    x_axis["axisPointer"] = {"label": {":formatter": f"(p) => ({_SHORT})(p.value)"}}
    return {
        "animation": False,
        "grid": _grid(),
        "tooltip": {
            "trigger": "axis",
            "confine": True,
            "transitionDuration": 0,
            ":backgroundColor": _CARD,
            ":borderColor": _LINE,
            "textStyle": {":color": _STRONG, "fontSize": 12},
            ":valueFormatter": shown,
        },
        "xAxis": x_axis | _axis_look(),
        "yAxis": y_axis,
    }


def _grid(top: int = 14) -> dict[str, JsonValue]:
    return {"left": 8, "right": 14, "top": top, "bottom": 6, "containLabel": True}


def _axis_look() -> dict[str, JsonValue]:
    return {
        "axisLine": {"lineStyle": {":color": _LINE}},
        "axisLabel": {
            ":color": _TEXT,
            "fontSize": 11,
            "hideOverlap": True,
            ":formatter": f"(v) => typeof v === 'number' ? ({_TICK})(v) : v",
        },
    }


def _line(chart: Chart, one: Points, shade: str, levels: Mapping[str, float] | None) -> dict[str, JsonValue]:
    second = one.line is not chart.lines[0]
    drawn: dict[str, JsonValue] = {
        "type": "line",
        "name": f"{one.run} {one.line.label}".strip(),
        "showSymbol": len(one.values) == 1,
        "symbolSize": 6,
        "lineStyle": {"width": 1.8, "type": "dashed" if second else "solid"},
        "itemStyle": {"color": shade},
        "data": _pairs(one.values),
    }
    if levels is not None and not second:
        drawn["markLine"] = {
            "silent": True,
            "symbol": "none",
            "animation": False,
            "label": {"show": False},
            "lineStyle": {"type": "dotted", "color": shade, "width": 1.5},
            "data": [{"yAxis": levels[one.run]}] if one.run in levels else [],
        }
    return drawn


def _faint(one: Points, shade: str) -> dict[str, JsonValue]:
    return {
        "type": "line",
        "showSymbol": False,
        "silent": True,
        "tooltip": {"show": False},
        "lineStyle": {"width": 1, "opacity": 0.25},
        "itemStyle": {"color": shade},
        "data": _pairs(one.values),
    }


def _pairs(values: Sequence[tuple[float, float]]) -> list[JsonValue]:
    return [[x, y] for x, y in values]
