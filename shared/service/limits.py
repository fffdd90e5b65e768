"""Bounds on what a client may send before anybody looks at it."""

from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.problems import ProblemError, problem_response

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The largest request body that a service reads when it does not say otherwise."""


class _BodyTooLargeError(Exception):
    """Ends the reading of a body inside the app."""


class BodyLimit:
    """ASGI middleware that answers 413 to a larger body: at once where its length is announced, else while reading."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        """Bodies of up to ``most_bytes`` pass."""
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _announced(scope) > self._most:
            await problem_response(self._problem(), scope["path"])(scope, receive, send)
            return
        size, over, begun = 0, False, False

        async def counted() -> Message:
            nonlocal size, over
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most:
                over = True
                raise _BodyTooLargeError
            return message

        async def sending(message: Message) -> None:
            nonlocal begun
            if over and not begun:
                return  # the app's own words about a body that ended too early
            begun = True
            await send(message)

        with suppress(_BodyTooLargeError):  # answered below
            await self._app(scope, counted, sending)
        if over and not begun:
            await problem_response(self._problem(), scope["path"])(scope, receive, send)

    def _problem(self) -> ProblemError:
        detail = f"The body is larger than {self._most} bytes, the most that this service reads. Send less at once."
        return ProblemError(413, "body-too-large", "The body is too large", detail, headers={"Connection": "close"})


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
