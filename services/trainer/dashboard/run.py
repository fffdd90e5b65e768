"""One run: how it stands, its recipe, events, checkpoints, evaluations and log."""

import asyncio
from collections.abc import Sequence

from nicegui import ui

from services.trainer.dashboard.chart_options import colour, curve_options
from services.trainer.dashboard.chart_parts import ChartCard
from services.trainer.dashboard.curves_data import LEARNING, Axis, as_csv, points
from services.trainer.dashboard.job_buttons import job_buttons
from services.trainer.dashboard.live import address as live_address
from services.trainer.dashboard.metrics_file import MetricsFile
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import (
    Part,
    card,
    facts,
    keep_up,
    notice,
    progress_bar,
    state_chip,
    text_block,
    written,
)
from services.trainer.dashboard.run_data import Evaluated, Happening, evaluations, happenings, log_tail
from services.trainer.dashboard.runs_data import JobLine, job_line, method_of
from services.trainer.dashboard.words import clock, duration, percent, size
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.service import unknown_job
from shared.recipe import Recipe, recipe_text
from shared.schemas.job import Checkpoint, JobState

REFRESH_S = 2.0


async def build(view: View) -> None:
    """The whole page; every part follows the run by itself."""
    job = await view.service.job(view.parameters["job"])
    recipe = await view.service.store.recipe(job.id)
    if recipe is None:
        raise unknown_job(job.id)  # it was deleted meanwhile
    page = _RunPage(view, job.id, recipe)
    page.place()
    await page.refresh()
    keep_up(REFRESH_S, page.refresh)


class _RunPage:
    """The parts of the page, drawn anew only where what they show has changed."""

    def __init__(self, view: View, job: str, recipe: Recipe) -> None:
        self._view, self._job, self._recipe = view, job, recipe
        self._folder = RunFolder(view.service.settings.run_folder(job))
        self._metrics = MetricsFile(self._folder.metrics)

    def place(self) -> None:
        """Put the frames onto the page."""
        self._head = Part(ui.element("div").classes("run-head"))
        self._standing = Part(ui.element("section").classes("card"))
        with ui.element("div").classes("chart-grid"):
            self._charts = [(chart, self._chart_card(chart.key, chart.title, chart.note)) for chart in LEARNING]
        with ui.element("div").classes("columns"):
            with card("Evaluations"):
                self._evaluations = Part(ui.element("div"))
            with card("Checkpoints"):
                self._checkpoints = Part(ui.element("div"))
        with card("Events"):
            self._events = Part(
                ui.element("div").classes("scroll").props('tabindex=0 role="region" aria-label="Events"')
            )
        with card("Log"):
            self._log = text_block("", "Log of the training processes")
        with card("Recipe"):
            text = recipe_text(self._recipe)
            ui.button("Download", on_click=lambda: ui.download.content(text, f"{self._job}.toml"), color=None).props(
                'flat dense no-caps aria-label="Download the recipe"'
            ).classes("action corner")
            text_block(text, "Recipe with every default spelled out")

    async def refresh(self) -> None:
        """Bring every part up to date."""
        job = await self._view.service.job(self._job)
        if await asyncio.to_thread(self._metrics.update) or job.policy_version == 0:
            self._draw_charts()
        line = job_line(job, method_of(self._recipe), self._metrics.rows)
        self._head.show((job.state, line.method), lambda: self._draw_head(line))
        self._standing.show(line, lambda: _draw_standing(line))
        evaluated = await asyncio.to_thread(evaluations, self._folder)
        self._evaluations.show(evaluated, lambda: _draw_evaluations(evaluated, self._recipe))
        kept = await asyncio.to_thread(self._folder.checkpoints)
        self._checkpoints.show(kept, lambda: _draw_checkpoints(self._job, kept))
        events = await happenings(self._view.service, self._job)
        self._events.show(events, lambda: _draw_events(events))
        self._log.set_text(await log_tail(self._folder) or "Nothing was logged yet.")

    def _chart_card(self, key: str, title: str, note: str) -> ChartCard:
        lines = next(chart.lines for chart in LEARNING if chart.key == key)
        return ChartCard(key, title, note, lambda: as_csv({self._job: self._metrics.rows}, lines))

    def _draw_charts(self) -> None:
        table = self._metrics.table
        for chart, place in self._charts:
            lines = [points(self._job, table, line, Axis.STEPS) for line in chart.lines]
            place.show(dict(curve_options(chart, lines, {self._job: colour(0)})))

    def _draw_head(self, line: JobLine) -> None:
        with ui.element("div").classes("heading"):
            written("h1", line.job.id)
            written("p", line.method)
        state_chip(line.job.state)
        with ui.element("div").classes("run-actions"):
            if line.job.state is JobState.RUNNING:
                ui.link("Watch live", live_address(line.job.id))
            ui.link("All curves", f"/curves?runs={line.job.id}")
            job_buttons(self._view.service, line.job, self.refresh)


def _draw_standing(line: JobLine) -> None:
    job = line.job
    progress_bar(line.share_done, "Training steps done", busy=job.state is JobState.RUNNING)
    with ui.element("div").classes("standing"):
        facts(
            [
                ("Training steps", f"{job.policy_version} of {job.steps}"),
                ("Time a step", "–" if line.step_s is None else duration(line.step_s)),
                ("Time left", "–" if line.left_s is None else duration(line.left_s)),
                ("Success, latest step", percent(line.success)),
                ("Submitted", clock(job.submitted_at)),
                ("Started", "–" if job.started_at is None else clock(job.started_at)),
                ("Ended", "–" if job.ended_at is None else clock(job.ended_at)),
            ]
        )
    if job.reason:
        notice("bad" if job.state is JobState.FAILED else "quiet", job.state.value.capitalize(), job.reason)


def _draw_evaluations(rows: Sequence[Evaluated], recipe: Recipe) -> None:
    if not rows:
        wanted = recipe.evaluation.episodes > 0
        written("p", "None yet." if wanted else "The recipe asks for none: evaluation.episodes = 0.", "muted")
        return
    head = ["", "environment", "success (95%)", "score", "steps", "of optimum"]
    _table(
        head,
        [
            [
                row.when,
                row.environment,
                f"{percent(row.success)} ({percent(row.interval.low)} – {percent(row.interval.high)})",
                f"{row.score:.3f}",
                f"{row.steps:.1f}",
                "–" if row.to_optimum is None else f"{row.to_optimum:.2f}×",
            ]
            for row in rows
        ],
    )


def _draw_checkpoints(job: str, kept: Sequence[Checkpoint]) -> None:
    if not kept:
        written("p", "None yet.", "muted")
        return
    with ui.element("ul").classes("plain-list"):
        for one in reversed(kept):
            with ui.element("li"):
                written("span", f"version {one.version}", "numbers strong")
                written("span", f"{size(one.bytes)} · {clock(one.created_at)}", "muted numbers small")
                address = f"/v1/jobs/{job}/checkpoints/{one.version}/archive?trainer_state=false"
                ui.link("Weights", address).props(
                    f'download aria-label="Download the weights of version {one.version}"'
                )


def _draw_events(events: Sequence[Happening]) -> None:
    if not events:
        written("p", "None yet.", "muted")
    for one in events:
        with ui.element("div").classes("event"):
            written("span", clock(one.time)[11:], "muted mono")
            written("span", one.kind, "event-kind")
            written("span", one.text, "event-text")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    frame = ui.element("div").classes("scroll-x").props('tabindex=0 role="region" aria-label="Evaluations"')
    with frame, ui.element("table").classes("table numbers"):
        with ui.element("thead"), ui.element("tr"):
            for cell in head:
                written("th" if cell else "td", cell)
        with ui.element("tbody"):
            for row in rows:
                with ui.element("tr"):
                    for cell in row:
                        written("td", cell)


PAGE = Page("/runs/{job}", "Run", build)
