"""The WebSocket of OpenEnv's clients: each connection plays one episode at a time.

A frame is ``{"type": "reset" | "step" | "state" | "close", "data": …}`` and gets one answer, ``observation``, ``state``
or ``error``, before the next one is read. An error leaves the connection and the episode as they were.
"""

import logging
from contextlib import suppress

import msgspec
from fastapi import APIRouter, WebSocket
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from services.env_server.openenv.episode import ClientEpisode
from services.env_server.openenv.messages import ErrorCode, OpenEnvAction, OpenEnvReset
from services.env_server.routes.common import env_server_of_socket
from services.env_server.wire import invalid_body
from shared.problems import ProblemError, validation_problem

logger = logging.getLogger(__name__)

router = APIRouter()

_CODES = {
    "invalid-json": ErrorCode.INVALID_JSON,
    "unknown-type": ErrorCode.UNKNOWN_TYPE,
    "invalid-request": ErrorCode.VALIDATION_ERROR,
    "invalid-option": ErrorCode.VALIDATION_ERROR,
    "at-capacity": ErrorCode.CAPACITY_REACHED,
    "overloaded": ErrorCode.CAPACITY_REACHED,
    "no-episode": ErrorCode.SESSION_ERROR,
    "unknown-session": ErrorCode.SESSION_ERROR,
    "unknown-environment": ErrorCode.SESSION_ERROR,
}
"""Problems as OpenEnv's codes; all others are EXECUTION_ERROR."""


class Frame(msgspec.Struct, forbid_unknown_fields=True):
    """A frame from the client."""

    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(Frame).decode


@router.websocket("/openenv/{environment}/ws")
async def play(websocket: WebSocket, environment: str) -> None:
    """Serve one client until it leaves; its session goes with it."""
    episode = ClientEpisode(env_server_of_socket(websocket), environment)
    await websocket.accept()
    try:
        while (message := await websocket.receive())["type"] != "websocket.disconnect":
            answer = await _answer(episode, message.get("text"))
            if answer is None:
                with suppress(WebSocketDisconnect, RuntimeError):  # the client has hung up by itself
                    await websocket.close()
                return
            with suppress(WebSocketDisconnect):  # the next receive tells
                await websocket.send_text(answer.decode())
    finally:
        await episode.close()


async def _answer(episode: ClientEpisode, text: str | None) -> bytes | None:
    """The answer to a frame, an error frame for whatever is wrong with it; None to ``close``."""
    try:
        return await _perform(episode, _frame(text))
    except ValidationError as error:
        return _error(validation_problem(invalid_body(error)))
    except RequestValidationError as error:
        return _error(validation_problem(error))
    except ProblemError as problem:
        return _error(problem)
    except Exception as error:  # the client is told, as over HTTP, and may reset
        logger.exception("a request of an OpenEnv client failed")
        detail = f"The request failed with {type(error).__name__}; the log has the details."
        return _error(ProblemError(500, "internal-error", "The service failed", detail))


def _frame(text: str | None) -> Frame:
    if text is None:
        raise ProblemError(422, "invalid-json", "The frame is not valid", "frame: send text frames of JSON.")
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        raise ProblemError(422, "invalid-request", "The frame is not valid", f"frame: {error}") from error
    except msgspec.DecodeError as error:
        raise ProblemError(422, "invalid-json", "The frame is not valid", f"frame: {error}") from error


async def _perform(episode: ClientEpisode, frame: Frame) -> bytes | None:
    match frame.type:
        case "reset":
            return _told(
                "observation", await episode.reset(OpenEnvReset.model_validate_json(bytes(frame.data), strict=True))
            )
        case "step":
            return _told(
                "observation", await episode.step(OpenEnvAction.model_validate_json(bytes(frame.data), strict=True))
            )
        case "state":
            return _told("state", (await episode.state()).model_dump_json().encode())
        case "close":
            return None
    detail = f"type: {frame.type[:64]!r} is none of reset, step, state, close. For MCP start `gagpo mcp`."
    raise ProblemError(422, "unknown-type", "The frame is not valid", detail)


def _told(kind: str, data: bytes) -> bytes:
    return msgspec.json.encode({"type": kind, "data": msgspec.Raw(data)})


def _error(problem: ProblemError) -> bytes:
    """OpenEnv's client shows the message and the code; the problem document is for those who read the frame."""
    code = _CODES.get(problem.kind, ErrorCode.EXECUTION_ERROR)
    document = problem.document().model_dump(exclude_none=True)
    return msgspec.json.encode(
        {"type": "error", "data": {"message": problem.detail, "code": code.value, "problem": document}}
    )
