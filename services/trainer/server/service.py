"""The parts of a running trainer service, for its routes."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from fastapi import Request
from pydantic import JsonValue

from services.trainer.server.credit_store import CreditStore
from services.trainer.server.metrics import TrainerMetrics
from services.trainer.server.model_check import ModelChecker
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.servers import Servers
from services.trainer.server.settings import TrainerSettings
from services.trainer.server.supervisor import Supervisor
from services.trainer.server.worker_process import folder_lock
from shared.buffer import AsyncEventReader, AsyncJobStore, JobNotOverError
from shared.problems import ProblemError
from shared.schemas.job import Job

STEP_EVENT = "step"
"""Kind of the event with a training step's metrics."""

_AFTER_STOP_S = 2.0
"""How long after its deadline a process that is being stopped may take to be gone."""


@dataclass(frozen=True, slots=True)
class TrainerService:
    """What the lifespan made."""

    settings: TrainerSettings
    store: AsyncJobStore
    servers: Servers
    models: ModelChecker
    supervisor: Supervisor
    metrics: TrainerMetrics
    credit: CreditStore = field(default_factory=CreditStore)

    async def job(self, job: str) -> Job:
        """The job of that id. Raises a 404 problem."""
        found = await self.store.get(job)
        if found is None:
            raise unknown_job(job)
        return found

    async def latest_step(self, job: str) -> dict[str, JsonValue]:
        """The metrics of the job's latest training step; empty before its first."""
        events = AsyncEventReader(self.settings.redis_url, job)
        try:
            latest = await events.last(STEP_EVENT)
        finally:
            await events.close()
        return {} if latest is None else latest.payload

    async def remove(self, job: Job) -> None:
        """Forget a job that is over, and delete its files once its processes have ended.

        Raises `JobNotOverError`, `UnknownJobError`, and a 503 problem where the processes take too long.
        """
        if not job.state.over:
            raise JobNotOverError(job.id, job.state)
        folder = self.folder(job)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self.settings.stop_deadline_s + _AFTER_STOP_S):
                    await stack.enter_async_context(folder_lock(folder.lock_file))
            except TimeoutError as error:
                detail = f"job {job.id} is {job.state.value}, and its processes have not ended yet; try again."
                raise ProblemError(
                    503, "job-stopping", "The job is still being stopped", detail, headers={"Retry-After": "5"}
                ) from error
            await self.store.remove(job.id)
            await asyncio.to_thread(folder.remove)

    def folder(self, job: Job) -> RunFolder:
        """Where the job's files lie."""
        return RunFolder(self.settings.run_folder(job.id))


def unknown_job(job: str) -> ProblemError:
    """The 404 problem of an id that no job has."""
    detail = f"id = {job!r}: there is no such job; GET /v1/jobs lists those there are."
    return ProblemError(404, "unknown-job", "There is no such job", detail)


def trainer(request: Request) -> TrainerService:
    """The service behind a request."""
    service: TrainerService = request.app.state.trainer
    return service
