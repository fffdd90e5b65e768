"""What the routes share: the running server, and the documentation of problems."""

from typing import Any

from fastapi import Request, WebSocket
from pydantic import BaseModel

from services.env_server.operations import EnvServer
from services.env_server.wire import JSON, MSGPACK
from shared.problems import PROBLEM_JSON
from shared.schemas.environment import Problem


def env_server(request: Request) -> EnvServer:
    """The running server behind an HTTP request."""
    server: EnvServer = request.app.state.env_server
    return server


def env_server_of_socket(websocket: WebSocket) -> EnvServer:
    """The running server behind a WebSocket."""
    server: EnvServer = websocket.app.state.env_server
    return server


def problems(**kinds: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for problems, written ``s404="unknown-session: …"``; each is an RFC 9457 document."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        int(status[1:]): {"description": text, "content": {PROBLEM_JSON: {"schema": schema}}}
        for status, text in kinds.items()
    }


WORK_PROBLEMS = problems(
    s500="environment-error, worker-crashed: the environment failed; the session is as it was.",
    s503="at-capacity, overloaded, worker-unavailable, journal-unavailable: wait as Retry-After says, send it again.",
    s504="deadline-exceeded: the environment took too long; the session is as it was.",
)
"""Of every route that has the environment do something."""


def body_problems(unread: str) -> dict[int | str, dict[str, Any]]:
    """The problems of a request's body; ``unread`` completes "the body is …" for a media type that is not read."""
    return problems(
        s413="body-too-large: the body is larger than the server reads.",
        s415=f"unsupported-media-type: the body is {unread}.",
        s422="invalid-request: a field is missing, unknown, or has a wrong value; `faults` names each.",
    )


def request_body(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI ``requestBody`` of a route that reads its body by itself."""
    content = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}, "example": example}
    return {"requestBody": {"required": True, "content": {JSON: content, MSGPACK: content}}}


def result(model: type[BaseModel], example: dict[str, Any], description: str) -> dict[str, Any]:
    """The OpenAPI response of a route that encodes its answer by itself."""
    content = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}, "example": example}
    return {"description": description, "content": {JSON: content, MSGPACK: content}}
