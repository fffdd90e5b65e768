"""The buttons that change a job's state: the same changes as by ``POST /v1/jobs/{id}/…``, with the same refusals."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from services.trainer.dashboard.parts import written
from services.trainer.server.routes.jobs import cancel, resume
from services.trainer.server.service import TrainerService
from shared.problems import ProblemError
from shared.schemas.job import Job, JobState

Change = Callable[[str, TrainerService], Awaitable[Job]]


def job_buttons(service: TrainerService, job: Job, then: Callable[[], Awaitable[None]]) -> None:
    """Cancel a job that is not over, resume one that failed or was cancelled. ``then`` is called after a change."""
    if not job.state.over:
        ui.button("Cancel", on_click=lambda: _ask(service, job, then), color=None).props(
            f'outline dense no-caps aria-label="Cancel {job.id}"'
        ).classes("action danger")
    elif job.state is not JobState.COMPLETED:
        ui.button("Resume", on_click=lambda: _change(resume, service, job, then), color=None).props(
            f'outline dense no-caps aria-label="Resume {job.id}"'
        ).classes("action")


def _ask(service: TrainerService, job: Job, then: Callable[[], Awaitable[None]]) -> None:
    async def confirmed() -> None:
        dialog.close()
        await _change(cancel, service, job, then)

    dialog = ui.dialog().props(f'aria-label="Cancel {job.id}?"')
    with dialog, ui.element("div").classes("card dialog"):
        written("h2", f"Cancel {job.id}?")
        written(
            "p", "Its training stops within seconds. Checkpoints are kept, and it can be resumed from the last one."
        )
        with ui.element("div").classes("dialog-actions"):
            ui.button("Keep it", on_click=dialog.close, color=None).props("flat no-caps").classes("action")
            ui.button("Cancel the job", on_click=confirmed, color=None).props("unelevated no-caps").classes(
                "action filled-danger"
            )
    dialog.on("hide", dialog.delete)
    dialog.open()


async def _change(change: Change, service: TrainerService, job: Job, then: Callable[[], Awaitable[None]]) -> None:
    try:
        changed = await change(job.id, service)
    except ProblemError as problem:
        ui.notify(problem.detail, type="negative", multi_line=True)
    else:
        ui.notify(f"{job.id} is {changed.state.value}")
    await then()
