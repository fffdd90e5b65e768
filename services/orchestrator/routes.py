"""The orchestrator's routes: health, metrics and status."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from services.orchestrator.reachability import Reachability
from services.orchestrator.status import Phase, Progress, Status
from shared.problems import ProblemError
from shared.service import Access, Scope, metrics_response

router = APIRouter()

ACCESS = (Access("/v1", {Scope.JOBS}),)
"""Which tokens open them."""


def _progress(request: Request) -> Progress:
    found: Progress = request.app.state.progress
    return found


@router.get("/healthz")
async def healthz(progress: Annotated[Progress, Depends(_progress)]) -> dict[str, str]:
    """200 unless the rollouts broke off."""
    if progress.phase is Phase.FAILED:
        raise ProblemError(503, "rollouts-failed", "The rollouts broke off", progress.reason)
    return {"status": progress.phase}


@router.get("/readyz")
async def readyz(request: Request, progress: Annotated[Progress, Depends(_progress)]) -> dict[str, str]:
    """200 once the servers were found and fit the recipe; for a service that follows jobs, while all can be reached."""
    if request.app.state.follows:
        reachability: Reachability = request.app.state.reachability
        if missing := await reachability.missing():
            raise ProblemError(503, "not-ready", "Not ready", "; ".join(missing), headers={"Retry-After": "1"})
    elif progress.phase is Phase.STARTING:
        raise ProblemError(
            503,
            "not-ready",
            "Not ready yet",
            "the env servers or policy servers have not answered yet; the log says which",
            headers={"Retry-After": "1"},
        )
    return await healthz(progress)


@router.get("/metrics")
async def metrics(request: Request, progress: Annotated[Progress, Depends(_progress)]) -> Response:
    """Counters of the job at work for Prometheus; they begin again at zero with every job."""
    return metrics_response(request.app.state.requests, progress.metrics.registry)


@router.get("/v1/status")
async def status(progress: Annotated[Progress, Depends(_progress)]) -> Status:
    """Where the orchestrator stands."""
    return progress.status()
