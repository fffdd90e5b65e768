"""The parts of a running trainer service, for its routes."""

from dataclasses import dataclass

from fastapi import Request
from pydantic import JsonValue

from services.trainer.server.metrics import TrainerMetrics
from services.trainer.server.model_check import ModelChecker
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.servers import Servers
from services.trainer.server.settings import TrainerSettings
from services.trainer.server.supervisor import Supervisor
from shared.buffer import AsyncEventReader, AsyncJobStore
from shared.problems import ProblemError
from shared.schemas.job import Job

STEP_EVENT = "step"
"""Kind of the event with a training step's metrics."""


@dataclass(frozen=True, slots=True)
class TrainerService:
    """What the lifespan made."""

    settings: TrainerSettings
    store: AsyncJobStore
    servers: Servers
    models: ModelChecker
    supervisor: Supervisor
    metrics: TrainerMetrics

    async def job(self, job: str) -> Job:
        """The job of that id. Raises a 404 problem."""
        found = await self.store.get(job)
        if found is None:
            detail = f"id = {job!r}: there is no such job; GET /v1/jobs lists those there are."
            raise ProblemError(404, "unknown-job", "There is no such job", detail)
        return found

    async def latest_step(self, job: str) -> dict[str, JsonValue]:
        """The metrics of the job's latest training step; empty before its first."""
        events = AsyncEventReader(self.settings.redis_url, job)
        try:
            latest = await events.last(STEP_EVENT)
        finally:
            await events.close()
        return {} if latest is None else latest.payload

    def folder(self, job: Job) -> RunFolder:
        """Where the job's files lie."""
        return RunFolder(self.settings.run_folder(job.id))


def trainer(request: Request) -> TrainerService:
    """The service behind a request."""
    service: TrainerService = request.app.state.trainer
    return service
