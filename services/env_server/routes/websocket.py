"""The same messages over one socket.

A request frame is ``{"id": …, "op": "open" | "step" | "steps" | "state" | "delete", "session_id"?: …, "body"?: …}``,
with ``"idempotency_key"?`` for ``open``;
the answer is ``{"id": …, "status": …, "body": …}``, where ``status`` and ``body`` are those of the REST route.
Text frames are JSON and binary frames msgpack, and an answer comes in the encoding of its request. Requests of a
socket are worked on at the same time, so answers may come in another order: the ``id`` tells.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from services.env_server import faults
from services.env_server.opening_key import KEY_PATTERN
from services.env_server.operations import EnvServer
from services.env_server.routes.common import env_server_of_socket
from services.env_server.wire import Decoder
from services.env_server.worker_protocol import Encoding
from shared.problems import ProblemError, validation_problem

logger = logging.getLogger(__name__)

router = APIRouter()

IN_FLIGHT = 256
"""Requests of one socket that are worked on at once; the next one is read when one of them is done."""


class SocketRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request frame."""

    id: int | str
    op: Literal["open", "step", "steps", "state", "delete"]
    session_id: str | None = None
    idempotency_key: Annotated[str, msgspec.Meta(pattern=KEY_PATTERN)] | None = None
    body: msgspec.Raw = msgspec.Raw(b"")


class SocketAnswer(msgspec.Struct):
    """An answer frame."""

    id: int | str | None
    status: int
    body: msgspec.Raw | dict[str, Any] | None


_decoders: dict[Encoding, Decoder[SocketRequest]] = {
    "json": msgspec.json.Decoder(SocketRequest),
    "msgpack": msgspec.msgpack.Decoder(SocketRequest),
}


@router.websocket("/v1/ws")
async def websocket(websocket: WebSocket) -> None:
    """Serve one socket until the client leaves."""
    server = env_server_of_socket(websocket)
    await websocket.accept()
    slots = asyncio.Semaphore(IN_FLIGHT)
    async with asyncio.TaskGroup() as tasks:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return  # what is under way ends by itself; its answers go nowhere
            await slots.acquire()
            tasks.create_task(_serve(websocket, server, message.get("text"), message.get("bytes"), slots))


async def _serve(
    websocket: WebSocket, server: EnvServer, text: str | None, data: bytes | None, slots: asyncio.Semaphore
) -> None:
    encoding: Encoding = "json" if text is not None else "msgpack"
    try:
        encoded = await _answer(server, text.encode() if text is not None else data or b"", encoding)
    finally:
        slots.release()
    if websocket.client_state is not WebSocketState.CONNECTED:
        return  # the client has left; what it asked for is done, and a retry would be told so
    with suppress(WebSocketDisconnect):
        if text is not None:
            await websocket.send_text(encoded.decode())
        else:
            await websocket.send_bytes(encoded)


async def _answer(server: EnvServer, frame: bytes, encoding: Encoding) -> bytes:
    """The answer frame; whatever is wrong becomes a problem document in it."""
    number: int | str | None = None
    session: str | None = None
    try:
        if len(frame) > server.settings.max_body_bytes:
            raise faults.body_too_large(server.settings.max_body_bytes)
        try:
            request = _decoders[encoding].decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ProblemError(422, "invalid-request", "The request is not valid", f"frame: {error}") from error
        number, session = request.id, request.session_id
        status, body = await _perform(server, request, encoding)
        answer = SocketAnswer(number, status, None if body is None else msgspec.Raw(body))
    except RequestValidationError as error:
        answer = _problem(number, validation_problem(error))
    except ProblemError as problem:
        answer = _problem(number, problem)
    except Exception as error:  # one request that fails must not take the socket's others with it
        logger.exception("a request over the socket failed", extra={"session": session})
        detail = f"The request failed with {type(error).__name__}; the log has the details."
        answer = _problem(number, ProblemError(500, "internal-error", "The service failed", detail))
    return msgspec.json.encode(answer) if encoding == "json" else msgspec.msgpack.encode(answer)


def _problem(number: int | str | None, problem: ProblemError) -> SocketAnswer:
    return SocketAnswer(number, problem.status, problem.document().model_dump(exclude_none=True))


async def _perform(server: EnvServer, request: SocketRequest, encoding: Encoding) -> tuple[int, bytes | None]:
    body = bytes(request.body)
    if request.op == "steps":
        return 200, await server.steps(body, encoding, encoding)
    if request.op == "open":
        return 201, await server.open(body, encoding, encoding, request.idempotency_key)
    if request.session_id is None:
        detail = f"session_id: is missing; op {request.op!r} needs it."
        raise ProblemError(422, "invalid-request", "The request is not valid", detail)
    if request.op == "step":
        return 200, await server.step(request.session_id, body, encoding, encoding)
    if request.op == "state":
        return 200, await server.state(request.session_id, encoding)
    await server.delete(request.session_id)
    return 204, None
