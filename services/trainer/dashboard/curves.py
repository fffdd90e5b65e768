"""Live curves of one run or of several."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from services.trainer.dashboard.chart_options import Options, colour, curve_options, histogram_options, phase_options
from services.trainer.dashboard.chart_parts import ChartCard, chart_section
from services.trainer.dashboard.curves_data import (
    CREDIT,
    LEARNING,
    PHASES,
    SIZES,
    SPEED,
    UPDATE,
    Axis,
    Chart,
    Line,
    as_csv,
    environment_charts,
    group_sizes,
    is_shown,
    phase_points,
    points,
    task_type_charts,
)
from services.trainer.dashboard.metrics_file import MetricsFile, MetricsTable, Row
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import heading, keep_up, notice
from services.trainer.dashboard.run_catalogue import Run, all_runs, first_choice, optimal_length

REFRESH_S = 2.0
MOST_RUNS = 8
"""Overlaid at once: as many as there are colours."""

_FAINT_RUNS = 3
"""With more runs, the unsmoothed lines behind the smoothed ones would only be a blur."""

_LENGTH = "mean_episode_length"


@dataclass(slots=True)
class _Chosen:
    """What the page shows, and what it has read for that."""

    catalogue: Sequence[Run]
    names: list[str] = field(default_factory=list)
    smoothing: float = 0.0
    axis: Axis = Axis.STEPS
    files: dict[str, MetricsFile] = field(default_factory=dict)
    optima: dict[str, float] = field(default_factory=dict)

    @property
    def colours(self) -> dict[str, str]:
        return {name: colour(place) for place, name in enumerate(self.names)}

    @property
    def rows(self) -> dict[str, Sequence[Row]]:
        return {name: self.files[name].rows for name in self.names}

    @property
    def tables(self) -> dict[str, MetricsTable]:
        return {name: self.files[name].table for name in self.names}

    def choose(self, names: Sequence[str]) -> None:
        """Show these runs; reads what there is of them. Blocks on the disk."""
        for name in names:
            self._read(name)
        self.names = list(names)

    def read(self) -> bool:
        """Read what is new of every run chosen; whether anything is. Blocks on the disk."""
        news = [self._read(name) for name in self.names]
        return any(news)

    def _read(self, name: str) -> bool:
        run = next(run for run in self.catalogue if run.name == name)
        if name not in self.files:
            self.files[name] = MetricsFile(run.files.metrics)
        news = self.files[name].update()
        if name not in self.optima and (optimum := optimal_length(run.files)) is not None:
            self.optima[name], news = optimum, True
        return news


async def build(view: View) -> None:
    """Choice of runs, then the charts."""
    heading("Curves", "Training step by step, while it happens. Hover a line for its values.")
    catalogue = await all_runs(view.service)
    if not catalogue:
        notice("quiet", "No runs yet", "Submit a job: gagpo job submit configs/alfworld-cpu.toml")
        return
    known = {run.name for run in catalogue}
    asked = [name for name in view.query.get("runs", "").split(",") if name in known]
    chosen = _Chosen(catalogue)
    await asyncio.to_thread(chosen.choose, (asked or first_choice(catalogue))[:MOST_RUNS])
    charts = _Charts(chosen)
    with ui.element("div").classes("card controls"):
        _controls(chosen, charts)
    charts.place()
    await charts.draw()

    async def follow() -> None:
        if await asyncio.to_thread(chosen.read):
            await charts.draw()

    keep_up(REFRESH_S, follow)


def _controls(chosen: _Chosen, charts: "_Charts") -> None:
    async def choose(event: ValueChangeEventArguments[Any]) -> None:
        await asyncio.to_thread(chosen.choose, list(event.value or [])[:MOST_RUNS])
        ui.navigate.history.replace("/curves?" + urlencode({"runs": ",".join(chosen.names)}))
        await charts.draw()

    async def smooth(event: ValueChangeEventArguments[Any]) -> None:
        chosen.smoothing = float(event.value)
        await charts.draw()

    async def count(event: ValueChangeEventArguments[Any]) -> None:
        chosen.axis = Axis(event.value)
        await charts.draw()

    ui.select(
        {run.name: run.name for run in chosen.catalogue},
        value=list(chosen.names),
        label="Runs",
        multiple=True,
        on_change=choose,
    ).props(f"use-chips outlined dense max-values={MOST_RUNS}").classes("run-choice")
    ui.select([axis.value for axis in Axis], value=chosen.axis.value, label="Across", on_change=count).props(
        "outlined dense"
    ).classes("axis-choice")
    with ui.element("div").classes("smoothing"):
        label = ui.label("Smoothing 0.00").classes("muted numbers")
        slider = ui.slider(min=0.0, max=0.98, step=0.02, value=0.0).props('aria-label="Smoothing"')
        label.bind_text_from(slider, "value", lambda value: f"Smoothing {value:.2f}")
        slider.on_value_change(smooth)


class _Charts:
    """The charts on the page, and what fills them."""

    def __init__(self, chosen: _Chosen) -> None:
        self._chosen = chosen
        self._fixed: list[tuple[Chart, ChartCard]] = []
        self._by_kind: list[tuple[Chart, ChartCard]] = []
        self._drawing = asyncio.Lock()
        self._asked = 0

    def place(self) -> None:
        """Put the cards onto the page, empty."""
        self._legend = ui.element("div").classes("legend")
        self._section("Learning", LEARNING)
        self._kinds = ui.element("div")
        self._section("Update", UPDATE)
        with chart_section("Credit") as grid:
            self._fill(grid, CREDIT)
            with grid:
                self._sizes = ChartCard(
                    "group_sizes", "Group sizes", "states by visits, latest step", self._csv_of_sizes
                )
        with chart_section("Speed") as grid:
            with grid:
                self._phases = ChartCard("phases", "Time per phase", "seconds a step", self._csv_of_phases, "wide")
            self._fill(grid, SPEED)

    async def draw(self) -> None:
        """Fill every chart from what was read. Of several calls at once only the last one draws."""
        self._asked += 1
        mine = self._asked
        async with self._drawing:
            if mine != self._asked:
                return
            self._draw_legend()
            self._place_kinds()
            placed = [*self._fixed, *self._by_kind]
            # In a thread: for runs of a thousand steps this takes long enough to keep others waiting.
            drawn = await asyncio.to_thread(lambda: [self._curve(chart) for chart, _ in placed])
            for (chart, card), options in zip(placed, drawn, strict=True):
                card.set_visible(is_shown(chart, self._chosen.tables.values()))
                card.show(options)
            self._draw_sizes_and_phases()

    def _draw_sizes_and_phases(self) -> None:
        chosen = self._chosen
        sizes = {name: counts for name, rows in chosen.rows.items() if (counts := group_sizes(rows))}
        self._sizes.show(histogram_options(sizes, chosen.colours))
        first = chosen.names[0] if chosen.names else None
        phases = {} if first is None else phase_points(chosen.tables[first], chosen.axis)
        self._phases.show(phase_options(phases, chosen.axis))
        self._phases.note("seconds a step" if len(chosen.names) < 2 else f"seconds a step of {first}")

    def _curve(self, chart: Chart) -> Options:
        chosen = self._chosen
        pairs = [(name, table, line) for name, table in chosen.tables.items() for line in chart.lines]
        lines = [points(name, table, line, chosen.axis, chosen.smoothing) for name, table, line in pairs]
        faint = []
        if chosen.smoothing > 0 and len(chosen.names) <= _FAINT_RUNS:
            faint = [points(name, table, line, chosen.axis) for name, table, line in pairs if line is chart.lines[0]]
        levels = chosen.optima if chart.key == _LENGTH else None
        return curve_options(chart, lines, chosen.colours, axis=chosen.axis, faint=faint, levels=levels)

    def _section(self, title: str, charts: Sequence[Chart]) -> None:
        with chart_section(title) as grid:
            self._fill(grid, charts)

    def _fill(self, grid: ui.element, charts: Sequence[Chart]) -> None:
        with grid:
            self._fixed += [(chart, self._card(chart)) for chart in charts]

    def _card(self, chart: Chart, look: str = "") -> ChartCard:
        return ChartCard(chart.key, chart.title, chart.note, lambda: as_csv(self._chosen.rows, chart.lines), look)

    def _place_kinds(self) -> None:
        """Charts of the kinds of task and environments that the runs have, where these have changed."""
        rows = list(self._chosen.rows.values())
        kinds = [*environment_charts(rows), *task_type_charts(rows)]
        if [chart for chart, _ in self._by_kind] == kinds:
            return
        self._kinds.clear()
        self._by_kind = []
        if kinds:
            with self._kinds, chart_section("Success by kind of task") as grid, grid:
                self._by_kind = [(chart, self._card(chart, "small")) for chart in kinds]

    def _draw_legend(self) -> None:
        self._legend.clear()
        with self._legend:
            for name, shade in self._chosen.colours.items():
                with ui.element("span").classes("legend-entry"):
                    ui.element("span").classes("swatch").style(f"background: {shade}")
                    ui.link(name, f"/runs/{name}")
                    steps = len(self._chosen.rows[name])
                    ui.label(f"{steps} step" + ("" if steps == 1 else "s")).classes("muted numbers")

    def _csv_of_sizes(self) -> str:
        return as_csv(self._chosen.rows, [Line(f"state_group_sizes/{size}") for size in SIZES])

    def _csv_of_phases(self) -> str:
        return as_csv(self._chosen.rows, [Line(f"seconds_{phase}") for phase in PHASES])


PAGE = Page("/curves", "Curves", build, menu="Curves")
