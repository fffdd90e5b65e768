"""Submitting jobs, looking at them, and changing their state."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response, status

from services.trainer.server.service import TrainerService, trainer, unknown_job
from services.trainer.server.submission import fit, new_id, notes, read_recipe
from shared.buffer import AsyncEventWriter, IllegalTransitionError, JobConflictError, JobNotOverError, UnknownJobError
from shared.problems import ProblemError
from shared.recipe import Recipe
from shared.schemas.job import Job, JobDetail, JobList, JobState, JobSubmission

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
Service = Annotated[TrainerService, Depends(trainer)]

NOTE_EVENT = "note"
"""Kind of the event that tells a submitter what may surprise; its payload has ``message``."""


@router.post("", status_code=status.HTTP_201_CREATED, responses={200: {"description": "The job was there already."}})
async def submit(body: JobSubmission, response: Response, service: Service) -> Job:
    """Check a recipe and put it into the queue.

    422 names what is wrong with the recipe, 409 what the running servers cannot train or whose id is taken, 503 which
    server does not answer. The same id and recipe again gives the job there is.
    """
    try:
        job, new = await _submit(body, service)
    except ProblemError as error:
        service.metrics.refused.labels(error.kind).inc()
        raise
    response.headers["location"] = f"/v1/jobs/{job.id}"
    if not new:
        response.status_code = status.HTTP_200_OK
    return job


@router.get("")
async def list_jobs(service: Service) -> JobList:
    """All jobs, the newest first."""
    return JobList(jobs=await service.store.all())


@router.get("/{job_id}")
async def show(job_id: str, service: Service) -> JobDetail:
    """One job with its recipe and the metrics of its latest training step."""
    job = await service.job(job_id)
    recipe = await service.store.recipe(job.id)
    if recipe is None:
        raise unknown_job(job.id)  # it was deleted meanwhile
    metrics = await service.latest_step(job.id)
    return JobDetail(**job.model_dump(), recipe=recipe.model_dump(mode="json"), metrics=metrics)


@router.post("/{job_id}/cancel")
async def cancel(job_id: str, service: Service) -> Job:
    """End a job. A running one stops within seconds, with its last checkpoint kept; cancelling it again is no error."""
    job = await service.job(job_id)
    if job.state is not JobState.CANCELLED:
        remedy = "there is nothing left to cancel"
        await _change(service, job, JobState.CANCELLED, "cancelled by request", remedy)
    return await service.job(job_id)


@router.post("/{job_id}/resume")
async def resume(job_id: str, service: Service) -> Job:
    """Put a failed or cancelled job back into the queue; it goes on from its last checkpoint."""
    job = await service.job(job_id)
    if job.state.over:
        remedy = "only a failed or cancelled job can be resumed; to train on, submit a recipe with more training.steps"
        await _change(service, job, JobState.QUEUED, "resumed by request", remedy)
    return await service.job(job_id)


@router.delete("/{job_id}", status_code=status.HTTP_204_NO_CONTENT)
async def delete(job_id: str, service: Service) -> None:
    """Forget a job that is over, and delete its files, checkpoints included.

    409 while it is not over, 503 while its processes have not ended yet.
    """
    job = await service.job(job_id)
    try:
        await service.remove(job)
    except JobNotOverError as error:
        detail = f"job {job.id} is {error.state.value}: cancel it first (POST /v1/jobs/{job.id}/cancel)."
        raise ProblemError(
            409, "job-not-over", "The job is not over", detail, extra={"state": error.state.value}
        ) from error
    except UnknownJobError as error:  # somebody else was faster
        raise unknown_job(job.id) from error


async def _submit(body: JobSubmission, service: TrainerService) -> tuple[Job, bool]:
    recipe = read_recipe(body.recipe)
    if body.id is not None and await _is_there(body.id, recipe, service):
        return await service.job(body.id), False
    fitted = await fit(recipe, service.servers, service.models)
    job = body.id or new_id(recipe)
    try:
        new = await service.store.add(job, fitted)
    except JobConflictError as error:
        raise ProblemError(409, "job-conflict", "The id is taken", f"id = {job!r}: {error}") from error
    if new:
        service.metrics.submitted.inc()
        await _tell(service, job, recipe)
        service.supervisor.wake()
    return await service.job(job), new


async def _is_there(job: str, recipe: Recipe, service: TrainerService) -> bool:
    """Whether it was submitted before, which a client that lost the answer may ask while a server is away."""
    stored = await service.store.recipe(job)
    if stored is None or recipe.model.path.name != stored.model.path.name:
        return False
    model = recipe.model.model_copy(update={"path": stored.model.path})
    return stored == recipe.model_copy(update={"model": model})


async def _tell(service: TrainerService, job: str, recipe: Recipe) -> None:
    events = AsyncEventWriter(service.settings.redis_url, job)
    try:
        for note in notes(recipe):
            await events.emit(NOTE_EVENT, {"message": note})
    finally:
        await events.close()


async def _change(service: TrainerService, job: Job, to: JobState, reason: str, remedy: str) -> None:
    try:
        await service.store.transition(job.id, to, reason)
    except UnknownJobError as error:
        raise unknown_job(job.id) from error
    except IllegalTransitionError as error:
        if error.before is to:  # somebody else was faster
            return
        detail = f"job {job.id} is {error.before.value}: {remedy}."
        raise ProblemError(
            409, "illegal-transition", "The job's state does not allow it", detail, extra={"state": error.before.value}
        ) from error
    service.supervisor.wake()
