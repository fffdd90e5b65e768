"""What a request gets that the service could not finish before it stopped."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.problems import ProblemError, problem_response


class StoppingAnswer:
    """ASGI middleware that answers 503 in place of Uvicorn's bare 500: another replica can take the request."""

    def __init__(self, app: ASGIApp) -> None:
        """``app`` is what it stands around."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            # Nobody but Uvicorn cancels a request, once the time for a graceful stop is over.
            if begun:
                raise
            await problem_response(_PROBLEM, scope["path"])(scope, receive, send)


_PROBLEM = ProblemError(
    503,
    "stopping",
    "The server is stopping",
    "The server was told to stop before this request was done. Send it again, to another replica or a little later.",
    headers={"Retry-After": "1", "Connection": "close"},
)
