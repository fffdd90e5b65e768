"""Our own routes: generation on token ids, scoring, weights and health."""

from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from services.policy_server.engine import EngineHost, Phase, Running
from services.policy_server.metrics import PolicyMetrics
from services.policy_server.weights import WeightStore
from shared.problems import ProblemError
from shared.schemas.policy import GenerateRequest, GenerateResult, ScoreRequest, ScoreResult, WeightPush, WeightState
from shared.service import Access, Scope, metrics_response

router = APIRouter()

ACCESS = (
    Access("/v1/weights", {Scope.GENERATE, Scope.WEIGHTS}, methods={"GET"}),
    Access("/v1/weights", {Scope.WEIGHTS}),
    Access("/v1", {Scope.GENERATE}),
    Access("/tokenize", {Scope.GENERATE}),
    Access("/detokenize", {Scope.GENERATE}),
    Access("/version", {Scope.GENERATE}),
)
"""Which tokens open our routes and those of vLLM."""


class TokenSource(Protocol):
    """What answers with tokens: `services.policy_server.generation.Generator`, which only vLLM's import makes."""

    async def generate(self, request: GenerateRequest) -> GenerateResult: ...

    async def score(self, request: ScoreRequest) -> ScoreResult: ...


def host(request: Request) -> EngineHost:
    """The engine's host, which the lifespan made."""
    found: EngineHost = request.app.state.host
    return found


def generator(request: Request) -> TokenSource:
    """The generator. Raises a 503 problem while the engine is not ready."""
    host(request).require()
    found: TokenSource = request.app.state.generator
    return found


def weights(request: Request) -> WeightStore:
    """The weight store. Raises a 503 problem while the engine is not ready."""
    host(request).require()
    found: WeightStore = request.app.state.weights
    return found


@router.post("/v1/generate", response_model=GenerateResult)
async def generate(body: GenerateRequest, source: Annotated[TokenSource, Depends(generator)]) -> Response:
    """Sample one answer to a prompt of token ids; log-probs and policy version come with every token."""
    result = await source.generate(body)
    return Response(result.model_dump_json(), media_type="application/json")


@router.post("/v1/score")
async def score(body: ScoreRequest, source: Annotated[TokenSource, Depends(generator)]) -> ScoreResult:
    """Log-probs, at temperature 1, of given tokens after a prompt."""
    return await source.score(body)


@router.get("/v1/weights")
async def get_weights(store: Annotated[WeightStore, Depends(weights)]) -> WeightState:
    """Which weights are served, and which were."""
    return store.state()


@router.post("/v1/weights")
async def push_weights(body: WeightPush, store: Annotated[WeightStore, Depends(weights)]) -> WeightState:
    """Serve new weights. On any error the old ones stay."""
    return await store.push(body)


@router.get("/healthz")
async def healthz(source: Annotated[EngineHost, Depends(host)]) -> JSONResponse:
    """200 while the process is of use: starting or ready."""
    if source.phase is Phase.FAILED:
        raise ProblemError(503, "engine-failed", "The engine failed", source.reason)
    return JSONResponse({"status": source.phase})


@router.get("/readyz")
async def readyz(source: Annotated[EngineHost, Depends(host)]) -> JSONResponse:
    """200 once the engine serves its first (or, after a restart, the latest) weights."""
    running: Running = source.require()
    return JSONResponse({"status": source.phase, "max_model_len": running.max_model_len})


@router.get("/metrics")
async def metrics(request: Request, source: Annotated[EngineHost, Depends(host)]) -> Response:
    """Ours, and vLLM's own once the engine is ready."""
    ours: PolicyMetrics = request.app.state.metrics
    if source.phase is Phase.READY:
        return metrics_response(ours.registry, source.require().metrics)
    return metrics_response(ours.registry)
