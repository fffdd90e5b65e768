"""Sessions and steps."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from starlette.responses import Response

from services.env_server.opening_key import KEY_PATTERN
from services.env_server.routes import examples
from services.env_server.routes.common import WORK_PROBLEMS, body_problems, env_server, problems, request_body, result
from services.env_server.wire import answer, given_encoding, read_body, wanted_encoding
from shared.schemas.environment import (
    SessionList,
    SessionRequest,
    SessionState,
    StepBatch,
    StepBatchResult,
    StepRequest,
    StepResult,
)

router = APIRouter(prefix="/v1", tags=["sessions"])

SessionId = Annotated[str, Path(description="What opening the session returned.")]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=KEY_PATTERN,
        description="Something nobody else takes, such as a UUID. The same request under the same key opens nothing "
        "again: it answers with the sessions of the first time, as they are now.",
    ),
]

_BODY_PROBLEMS = body_problems("neither JSON nor msgpack")


@router.post(
    "/sessions",
    status_code=201,
    openapi_extra=request_body(SessionRequest, examples.SESSION_REQUEST),
    responses={
        201: result(SessionList, {"sessions": [examples.OBSERVATION]}, "The sessions, each with its first observation"),
        **_BODY_PROBLEMS,
        **WORK_PROBLEMS,
        **problems(s404="unknown-environment, unknown-split, unknown-task."),
        **problems(s422="invalid-request; invalid-option: an option of the environment is not valid."),
    },
)
async def open_sessions(request: Request, key: IdempotencyKey = None) -> Response:
    """Open a session, or with `count` a whole group of the same task from one load.

    The task is named by `task_id`, or by `split` and `index`, or drawn by `split` and `seed`.
    """
    server = env_server(request)
    given, wanted = given_encoding(request), wanted_encoding(request)
    body = await read_body(request, server.settings.max_body_bytes)
    return answer(await server.open(body, given, wanted, key), wanted, 201)


@router.post(
    "/sessions/{session_id}/step",
    openapi_extra=request_body(StepRequest, examples.STEP_REQUEST),
    responses={
        200: result(StepResult, examples.STEP_RESULT, "What the step led to"),
        **_BODY_PROBLEMS,
        **WORK_PROBLEMS,
        **problems(
            s404="unknown-session.",
            s409="step-conflict: the index is not next, or was taken with another action; episode-over; data-changed.",
        ),
    },
)
async def step(request: Request, session_id: SessionId) -> Response:
    """Take one step. The same index with the same action again returns the stored result: retry as you like."""
    server = env_server(request)
    given, wanted = given_encoding(request), wanted_encoding(request)
    body = await read_body(request, server.settings.max_body_bytes)
    return answer(await server.step(session_id, body, given, wanted), wanted)


@router.post(
    "/steps",
    openapi_extra=request_body(StepBatch, examples.STEP_BATCH),
    responses={
        200: result(StepBatchResult, examples.STEP_BATCH_RESULT, "For each step a result or a problem, in order"),
        **_BODY_PROBLEMS,
        **WORK_PROBLEMS,
    },
)
async def steps(request: Request) -> Response:
    """Take steps of many sessions at once: the fast way. A step that fails leaves the others alone.

    Steps of one session are taken in the order given.
    """
    server = env_server(request)
    given, wanted = given_encoding(request), wanted_encoding(request)
    body = await read_body(request, server.settings.max_body_bytes)
    return answer(await server.steps(body, given, wanted), wanted)


@router.get(
    "/sessions/{session_id}",
    responses={
        200: result(SessionState, examples.SESSION_STATE, "The session as it is now"),
        **problems(s404="unknown-session.", s409="data-changed."),
        **WORK_PROBLEMS,
    },
)
async def state(request: Request, session_id: SessionId) -> Response:
    """The current observation, the number of steps taken, and when the session expires if nobody touches it."""
    wanted = wanted_encoding(request)
    return answer(await env_server(request).state(session_id, wanted), wanted)


@router.delete(
    "/sessions/{session_id}",
    status_code=204,
    responses={
        204: {"description": "The session is gone"},
        **problems(s404="unknown-session.", s503="journal-unavailable, at-capacity."),
    },
)
async def delete(request: Request, session_id: SessionId) -> Response:
    """Forget a session, here and in the journal. A second time it is 404: to a client that retries, also success."""
    await env_server(request).delete(session_id)
    return Response(status_code=204)
