"""Every request has an id, is counted, and leaves a line in the log."""

import itertools
import logging
import re
import secrets
import time

from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.service.auth import OPEN_PATHS
from shared.telemetry import request_id

logger = logging.getLogger(__name__)

HEADER = "X-Request-Id"
_HEADER = HEADER.lower().encode()
_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")

_ANSWERS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class RequestRecord:
    """ASGI middleware: takes ``X-Request-Id`` or makes one, answers with it, counts and logs.

    The count's route is its template, so that ids do not become labels.
    """

    def __init__(self, app: ASGIApp, service: str, registry: CollectorRegistry) -> None:
        """``service`` is the word in the metric's name, such as ``env``."""
        self._app = app
        self._counter = Counter(
            f"gagpo_{service}_http_requests_total",
            "HTTP requests answered",
            ["method", "route", "status"],
            registry=registry,
        )
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and look at the status of its answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        identity = _given(scope) or f"{self._prefix}-{next(self._numbers):x}".encode()
        request_id.set(identity.decode())
        started = time.perf_counter()
        status = 500  # what the server answers when the app raises

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in _ANSWERS:
                status = message.get("status", 101)
                message["headers"] = [*message.get("headers", ()), (_HEADER, identity)]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._record(scope, status, started)

    def _record(self, scope: Scope, status: int, started: float) -> None:
        if scope["type"] == "http":
            route = getattr(scope.get("route"), "path", "none")
            self._counter.labels(scope["method"], route, str(status)).inc()
        level = logging.WARNING if status >= 500 and scope["path"] not in OPEN_PATHS else logging.DEBUG
        if logger.isEnabledFor(level):
            took_ms = 1e3 * (time.perf_counter() - started)
            logger.log(level, "%s %s %d %.1f ms", scope.get("method", "WS"), scope["path"], status, took_ms)


def _given(scope: Scope) -> bytes | None:
    """The client's own id, where it is one that may stand in a log."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            return value if _ID.fullmatch(value) else None
    return None
