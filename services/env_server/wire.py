"""From bytes to messages and back: JSON or msgpack, strictly checked, bounded in size.

The stepping route is hot: msgspec reads its body, and only a body that msgspec refuses goes through pydantic, which
then says what is wrong in the words of every other route.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from services.env_server import faults
from services.env_server.step_run import Step
from services.env_server.worker_protocol import Encoding
from shared.schemas.environment import (
    MAX_ACTION_CHARS,
    MAX_BATCH,
    SessionRequest,
    StepBatch,
    StepRequest,
    check_action,
)

MSGPACK = "application/msgpack"
JSON = "application/json"

_Message = TypeVar("_Message", bound=BaseModel)


_Decoded = TypeVar("_Decoded", covariant=True)


class Decoder(Protocol[_Decoded]):
    """What the JSON and the msgpack decoder have in common."""

    def decode(self, data: bytes, /) -> _Decoded:
        """Parse and check. Raises `msgspec.MsgspecError`."""
        ...


class _StepRequest(msgspec.Struct, forbid_unknown_fields=True):
    action: str
    step_index: int


class _SessionStep(msgspec.Struct, forbid_unknown_fields=True):
    session_id: str
    action: str
    step_index: int


class _StepBatch(msgspec.Struct, forbid_unknown_fields=True):
    steps: list[_SessionStep]


_step_decoders: dict[Encoding, Decoder[_StepRequest]] = {
    "json": msgspec.json.Decoder(_StepRequest),
    "msgpack": msgspec.msgpack.Decoder(_StepRequest),
}
_batch_decoders: dict[Encoding, Decoder[_StepBatch]] = {
    "json": msgspec.json.Decoder(_StepBatch),
    "msgpack": msgspec.msgpack.Decoder(_StepBatch),
}


def given_encoding(request: Request) -> Encoding:
    """The body's encoding; JSON when nothing is said. Raises ``unsupported-media-type``."""
    content_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if content_type == JSON:
        return "json"
    if content_type == MSGPACK:
        return "msgpack"
    raise faults.unsupported_media_type(content_type)


def wanted_encoding(request: Request) -> Encoding:
    """The encoding that the client asks the answer in; JSON when nothing is said."""
    return "msgpack" if MSGPACK in request.headers.get("accept", "") else "json"


async def read_body(request: Request, limit: int) -> bytes:
    """The body, read only as long as it is within the limit. Raises ``body-too-large``."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise faults.body_too_large(limit)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise faults.body_too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def answer(content: bytes, encoding: Encoding, status: int = 200) -> Response:
    """A response of ready-encoded bytes."""
    return Response(content, status, media_type=JSON if encoding == "json" else MSGPACK)


def encode_message(message: BaseModel, encoding: Encoding) -> bytes:
    """A message of the API in the wanted encoding."""
    as_json = message.model_dump_json().encode()
    return as_json if encoding == "json" else msgspec.msgpack.encode(msgspec.json.decode(as_json))


def parse_session_request(body: bytes, encoding: Encoding) -> SessionRequest:
    """The body of ``POST /v1/sessions``. Raises `RequestValidationError`."""
    return _validate(SessionRequest, body, encoding)


def parse_step(body: bytes, encoding: Encoding, session_id: str) -> Step:
    """The body of ``POST /v1/sessions/{id}/step``. Raises `RequestValidationError`."""
    step: _StepRequest | None = None
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # pydantic says why
        step = _step_decoders[encoding].decode(body)
    if step is not None and step.step_index >= 0 and _plain(step.action):
        return Step(session_id, step.action, step.step_index)
    checked = _validate(StepRequest, body, encoding)
    return Step(session_id, checked.action, checked.step_index)


def parse_batch(body: bytes, encoding: Encoding) -> list[Step]:
    """The body of ``POST /v1/steps``. Raises `RequestValidationError`."""
    steps: list[_SessionStep] = []
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # pydantic says why
        steps = _batch_decoders[encoding].decode(body).steps
    if 0 < len(steps) <= MAX_BATCH and all(step.step_index >= 0 and _plain(step.action) for step in steps):
        return [Step(step.session_id, step.action, step.step_index) for step in steps]
    checked = _validate(StepBatch, body, encoding)
    return [Step(step.session_id, step.action, step.step_index) for step in checked.steps]


def join_list(field: str, fragments: Sequence[bytes], encoding: Encoding) -> bytes:
    """An object of one field, a list of ready-encoded items."""
    if encoding == "json":
        return b'{"' + field.encode() + b'":[' + b",".join(fragments) + b"]}"
    count = len(fragments)
    header = bytes([0x90 | count]) if count < 16 else b"\xdd" + count.to_bytes(4, "big")  # fixarray or array 32
    return b"\x81" + msgspec.msgpack.encode(field) + header + b"".join(fragments)


def invalid_body(error: ValidationError) -> RequestValidationError:
    """A pydantic error as FastAPI reports one."""
    faults_found = error.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in faults_found])


def _plain(action: str) -> bool:
    """Whether an action is surely valid. A printable string has no control characters."""
    if action.isprintable() and not action.isspace() and 0 < len(action) <= MAX_ACTION_CHARS:
        return True
    try:
        check_action(action)
    except ValueError:
        return False
    return True


def _validate(model: type[_Message], body: bytes, encoding: Encoding) -> _Message:
    if encoding == "msgpack":
        try:
            body = msgspec.json.encode(msgspec.msgpack.decode(body))
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError) as error:
            fault = {"loc": ("body",), "msg": f"not a msgpack map: {error}", "type": "msgpack_invalid"}
            raise RequestValidationError([fault]) from error
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise invalid_body(error) from error
