"""The first page: every job, with what it is doing."""

from nicegui import ui

from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import heading, keep_up, notice, state_chip
from shared.schemas.job import Job


async def build(view: View) -> None:
    """The jobs, the newest first."""
    heading("Runs", "Every job of this service, the newest first.")
    body = ui.element("div").classes("runs")
    shown: list[Job] = []

    async def refresh() -> None:
        jobs = await view.service.store.all()
        if jobs != shown or not jobs:
            shown[:] = jobs
            body.clear()
            with body:
                _draw(jobs)

    await refresh()
    keep_up(2.0, refresh)


def _draw(jobs: list[Job]) -> None:
    if not jobs:
        notice("quiet", "No jobs yet", "Submit one: gagpo job submit configs/alfworld-cpu.toml")
    for job in jobs:
        with ui.element("div").classes("card"):
            ui.label(job.id)
            state_chip(job.state)


PAGE = Page("/", "Runs", build, menu="Runs")
