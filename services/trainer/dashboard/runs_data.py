"""What the pages of runs tell about a job, as values. Nothing here draws."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.trainer.dashboard.metrics_file import MetricsFile, Row, number
from services.trainer.server.service import TrainerService
from shared.recipe import Recipe
from shared.schemas.job import Job, JobState

_STEPS_FOR_ETA = 10


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job as a line of the list."""

    job: Job
    method: str
    """Algorithm and environments, in words."""
    success: float | None
    """Of the latest training step."""
    step_s: float | None
    """Seconds of a training step, mean of the latest ten; None before the first."""
    left_s: float | None
    """Seconds to the last training step, where the job runs and that can be told. A time budget may end it before."""

    @property
    def share_done(self) -> float:
        """Training steps done, as a share."""
        return self.job.policy_version / self.job.steps if self.job.steps else 1.0


def step_seconds(rows: Sequence[Row]) -> float | None:
    """Seconds of a training step with its checkpoint, mean of the latest ten; None before the first."""
    latest = rows[-_STEPS_FOR_ETA:]
    if not latest:
        return None
    total = sum((number(row, "seconds_total") or 0.0) + (number(row, "seconds_checkpoint") or 0.0) for row in latest)
    return total / len(latest)


def job_line(job: Job, method: str, rows: Sequence[Row]) -> JobLine:
    """The line of a job from its metrics so far."""
    step_s = step_seconds(rows)
    running = job.state is JobState.RUNNING and step_s is not None
    return JobLine(
        job=job,
        method=method,
        success=number(rows[-1], "success_rate") if rows else None,
        step_s=step_s,
        left_s=step_s * max(0, job.steps - job.policy_version) if running and step_s is not None else None,
    )


def method_of(recipe: Recipe) -> str:
    """What is trained, and on what: ``gagpo on alfworld, webshop``."""
    names = ", ".join(environment.name for environment in recipe.environments)
    return f"{recipe.algorithm.name} on {names}"


class JobLines:
    """The lines of all jobs; keeps what was read of each."""

    def __init__(self, service: TrainerService) -> None:
        """Reads nothing yet."""
        self._service = service
        self._methods: dict[tuple[str, datetime], str] = {}
        self._files: dict[str, MetricsFile] = {}

    async def read(self) -> list[JobLine]:
        """Every job, the newest first."""
        jobs = await self._service.store.all()
        methods = [await self._method(job) for job in jobs]
        await asyncio.to_thread(self._update, jobs)
        return [job_line(job, method, self._files[job.id].rows) for job, method in zip(jobs, methods, strict=True)]

    async def _method(self, job: Job) -> str:
        key = (job.id, job.submitted_at)  # an id may be used again once its job was deleted
        if key not in self._methods:
            recipe = await self._service.store.recipe(job.id)
            self._methods[key] = "" if recipe is None else method_of(recipe)
        return self._methods[key]

    def _update(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.id not in self._files:
                self._files[job.id] = MetricsFile(self._service.folder(job).metrics)
            self._files[job.id].update()
