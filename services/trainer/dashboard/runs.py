"""The first page: every job, with what it is doing."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from services.trainer.dashboard.job_buttons import job_buttons
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import heading, keep_up, notice, progress_bar, state_chip, written
from services.trainer.dashboard.run_catalogue import all_runs
from services.trainer.dashboard.runs_data import JobLine, JobLines
from services.trainer.dashboard.words import clock, duration, percent

REFRESH_S = 2.0


async def build(view: View) -> None:
    """The jobs, the newest first, then folders that no job belongs to."""
    heading("Runs", "Jobs of this service, the newest first. One trains at a time.")
    lines = JobLines(view.service)
    place = ui.element("div").classes("runs")
    shown: list[JobLine] = []

    async def refresh() -> None:
        found = await lines.read()
        if found != shown or not found:
            shown[:] = found
            place.clear()
            with place:
                for line in found:
                    _draw(view, line, refresh)
                if not found:
                    notice("quiet", "No jobs yet", "Submit one: gagpo job submit configs/alfworld-cpu.toml")

    await refresh()
    others = [run.name for run in await all_runs(view.service) if run.job is None]
    if others:
        with ui.element("section").classes("other-runs"):
            written("h2", "Other runs in the folder")
            with ui.element("div").classes("link-list"):
                for name in others:
                    ui.link(name, f"/curves?runs={name}")
    keep_up(REFRESH_S, refresh)


def _draw(view: View, line: JobLine, changed: Callable[[], Awaitable[None]]) -> None:
    job = line.job
    with ui.element("article").classes("card run-line").props(f'data-job="{job.id}"'):
        with ui.element("div").classes("run-name"):
            ui.link(job.id, f"/runs/{job.id}").classes("run-link")
            state_chip(job.state)
            written("div", _about(line), "muted small")
        with ui.element("div").classes("run-progress"):
            progress_bar(line.share_done, f"Progress of {job.id}", busy=job.state.value == "running")
            written("div", _progress(line), "small numbers")
        with ui.element("div").classes("run-success"):
            written("div", percent(line.success), "figure numbers")
            written("div", "success", "muted small")
        with ui.element("div").classes("run-actions"):
            ui.link("Curves", f"/curves?runs={job.id}").props(f'aria-label="Curves of {job.id}"')
            job_buttons(view.service, job, changed)
        if job.reason and job.state.value in ("failed", "interrupted"):
            written("div", job.reason, "reason mono")


def _about(line: JobLine) -> str:
    submitted = f"submitted {clock(line.job.submitted_at)}"
    return " · ".join(part for part in (line.method, submitted) if part)


def _progress(line: JobLine) -> str:
    job = line.job
    steps = f"{job.policy_version} of {job.steps} steps"
    if job.position is not None:
        return f"{steps} · {'next' if job.position == 0 else f'{job.position} before it'} in the queue"
    pace = None if line.step_s is None else f"{duration(line.step_s)} a step"
    left = None if line.left_s is None else f"{duration(line.left_s)} left"
    return " · ".join(part for part in (steps, pace, left) if part)


PAGE = Page("/", "Runs", build, menu="Runs")
