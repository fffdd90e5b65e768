"""OpenEnv's HTTP routes. Its `EnvClient` plays over the socket; these are for curl, probes and validators.

Over HTTP an episode goes by the ``session_id`` in its observations, so that any number of clients may play at once.
"""

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse, Response

from services.env_server import faults
from services.env_server.openenv import document
from services.env_server.openenv.episode import open_episode, session_state, take_step
from services.env_server.openenv.messages import (
    OpenEnvHealth,
    OpenEnvMetadata,
    OpenEnvReset,
    OpenEnvResult,
    OpenEnvSchemas,
    OpenEnvState,
    OpenEnvStep,
)
from services.env_server.routes import examples, health
from services.env_server.routes.common import WORK_PROBLEMS, body_problems, env_server, problems
from services.env_server.routes.sessions import IdempotencyKey
from services.env_server.wire import JSON, MSGPACK, answer, given_encoding, invalid_body, read_body

router = APIRouter(prefix=document.MOUNT, tags=["OpenEnv"])

_UNKNOWN_ENVIRONMENT = problems(s404="unknown-environment: the detail lists those there are.")
_BODY_PROBLEMS = body_problems("not JSON")
_METHOD_NOT_FOUND = -32601

_Body = TypeVar("_Body", bound=BaseModel)


def _body(model: type[BaseModel], example: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {JSON: {"schema": schema, "example": example}}}}


def _result(example: dict[str, Any], description: str) -> dict[int | str, dict[str, Any]]:
    schema = {"$ref": f"#/components/schemas/{OpenEnvResult.__name__}"}
    return {200: {"description": description, "content": {JSON: {"schema": schema, "example": example}}}}


@router.post(
    "/reset",
    openapi_extra=_body(OpenEnvReset, examples.OPENENV_RESET, required=False),
    responses={
        **_result(examples.OPENENV_OPENED, "The episode's first observation"),
        **_BODY_PROBLEMS,
        **WORK_PROBLEMS,
        **problems(
            s404="unknown-environment, unknown-split, unknown-task.",
            s422="invalid-request; invalid-option: an option of the environment is not valid.",
        ),
    },
)
async def reset(request: Request, environment: str, key: IdempotencyKey = None) -> Response:
    """Open an episode of its own. Without a body, of a task drawn at random from the split for training."""
    wanted = await _read(request, OpenEnvReset, empty=b"{}")
    turn = await open_episode(env_server(request), environment, wanted, key)
    return answer(turn.content, "json")


@router.post(
    "/step",
    openapi_extra=_body(OpenEnvStep, examples.OPENENV_STEP),
    responses={
        **_result(examples.OPENENV_STEPPED, "What the step led to"),
        **_BODY_PROBLEMS,
        **WORK_PROBLEMS,
        **problems(
            s404="unknown-session, unknown-environment.",
            s409="step-conflict: the index is not next, or was taken with another action; episode-over; data-changed.",
        ),
    },
)
async def step(request: Request, environment: str) -> Response:
    """Take a step of a session. With a `step_index` it is safe to send again; without one it is the next step."""
    server = env_server(request)
    server.catalogue.description(environment)
    wanted = await _read(request, OpenEnvStep)
    return answer((await take_step(server, wanted.session_id, wanted.action)).content, "json")


@router.get(
    "/state",
    responses={
        **problems(s404="unknown-session, unknown-environment.", s409="data-changed.", s422="invalid-request."),
        **WORK_PROBLEMS,
    },
)
async def state(
    request: Request,
    environment: str,
    session_id: Annotated[
        str | None, Query(description="What the observations told. Without it: the state before any reset.")
    ] = None,
) -> OpenEnvState:
    """How far an episode is."""
    server = env_server(request)
    server.catalogue.description(environment)
    return OpenEnvState() if session_id is None else await session_state(server, session_id, session_id)


@router.get("/metadata", responses=_UNKNOWN_ENVIRONMENT)
async def metadata(request: Request, environment: str) -> OpenEnvMetadata:
    """The environment in words: actions, splits, options."""
    return document.metadata(env_server(request).catalogue.description(environment))


@router.get("/schema", responses=_UNKNOWN_ENVIRONMENT)
async def schema(request: Request, environment: str) -> OpenEnvSchemas:
    """JSON Schemas of actions, observations and state."""
    env_server(request).catalogue.description(environment)
    return document.schemas()


@router.get(
    "/health",
    responses={**_UNKNOWN_ENVIRONMENT, **problems(s503="not-ready: no worker is ready, or the journal is away.")},
)
async def healthy(request: Request, environment: str) -> OpenEnvHealth:
    """Whether episodes can be played now."""
    env_server(request).catalogue.description(environment)
    await health.readyz(request)
    return OpenEnvHealth(status="healthy")


@router.post("/mcp", include_in_schema=False)
async def mcp(request: Request, environment: str) -> JSONResponse:
    """JSON-RPC's "no such method": OpenEnv's validator asks here, and MCP clients have `gagpo mcp`."""
    env_server(request).catalogue.description(environment)
    message = "This server has no MCP methods; `gagpo mcp --url <this server>` is an MCP server for it."
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": _METHOD_NOT_FOUND, "message": message}})


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, environment: str) -> JSONResponse:
    """The OpenAPI document of this environment alone, where OpenEnv's validator looks for it."""
    env_server(request).catalogue.description(environment)
    return JSONResponse(document.environment_document(request.app.openapi(), environment))


async def _read(request: Request, model: type[_Body], empty: bytes = b"") -> _Body:
    """The body, checked. Raises a `ProblemError` or `RequestValidationError`."""
    if given_encoding(request) != "json":
        raise faults.unsupported_media_type(MSGPACK, JSON)
    body = await read_body(request, env_server(request).settings.max_body_bytes)
    try:
        return model.model_validate_json(body or empty, strict=True)
    except ValidationError as error:
        raise invalid_body(error) from error
