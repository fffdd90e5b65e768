"""For those who operate the server: alive, ready, metrics."""

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import Response

from services.env_server.journal import JournalUnavailableError
from services.env_server.routes.common import env_server, problems
from shared.problems import ProblemError
from shared.service import metrics_response

router = APIRouter(tags=["operation"])


class Health(BaseModel):
    """Answer of ``/healthz`` and ``/readyz``."""

    status: str
    workers_ready: int
    workers: int


@router.get("/healthz", responses=problems(s500="unhealthy: a background task has died; restart the server."))
async def healthz(request: Request) -> Health:
    """Whether the process is in order; restart it where it is not."""
    server = env_server(request)
    if server.supervisor.failed:
        detail = f"These background tasks have ended: {', '.join(server.supervisor.failed)}. Restart the server."
        raise ProblemError(500, "unhealthy", "A background task has died", detail)
    return Health(status="ok", workers_ready=server.pool.ready, workers=len(server.pool.slots))


@router.get("/readyz", responses=problems(s503="not-ready: no worker is ready, or the journal does not answer."))
async def readyz(request: Request) -> Health:
    """Whether the server can take requests now: a worker is ready and the journal answers."""
    server = env_server(request)
    headers = {"Retry-After": str(server.settings.retry_after_s)}
    if server.pool.ready == 0:
        raise ProblemError(503, "not-ready", "No worker is ready", "All workers are being replaced.", headers=headers)
    try:
        await server.journal.ping()
    except JournalUnavailableError as error:
        detail = f"The journal does not answer: {error}"
        raise ProblemError(503, "not-ready", "The journal is away", detail, headers=headers) from error
    return Health(status="ready", workers_ready=server.pool.ready, workers=len(server.pool.slots))


@router.get("/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})
async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    return metrics_response(env_server(request).metrics.registry)
