"""For those who operate the service: alive, ready, metrics."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from redis.exceptions import RedisError
from starlette.responses import Response

from services.trainer.server.service import TrainerService, trainer
from shared.problems import ProblemError
from shared.service import metrics_response

router = APIRouter(tags=["operation"])


class Health(BaseModel):
    """Answer of ``/healthz`` and ``/readyz``."""

    status: str
    job: str | None
    """The job being worked on."""


@router.get("/healthz")
async def healthz(service: Annotated[TrainerService, Depends(trainer)]) -> Health:
    """200 while the process is in order; it ends by itself where it is not."""
    return Health(status="ok", job=service.supervisor.job)


@router.get("/readyz")
async def readyz(service: Annotated[TrainerService, Depends(trainer)]) -> Health:
    """200 while Redis answers, and with it every route here."""
    try:
        await service.store.ping()
    except (RedisError, OSError) as error:
        detail = f"Redis does not answer ({error}): see REDIS_URL."
        raise ProblemError(503, "not-ready", "Redis is away", detail, headers={"Retry-After": "5"}) from error
    return Health(status="ready", job=service.supervisor.job)


@router.get("/metrics")
async def metrics(service: Annotated[TrainerService, Depends(trainer)]) -> Response:
    """Prometheus metrics."""
    job = service.supervisor.job
    service.metrics.show(await service.store.all(), await service.latest_step(job) if job is not None else {})
    return metrics_response(service.metrics.registry)
