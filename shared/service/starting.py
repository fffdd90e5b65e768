"""A service that can't start says why in one line, where that line names the remedy."""

import sys

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class StartFailure:
    """ASGI middleware that has Uvicorn log the messages of known errors of the lifespan, not their traces."""

    def __init__(self, app: ASGIApp, known: tuple[type[Exception], ...]) -> None:
        """``known`` errors have messages that say what to do."""
        self._app = app
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return

        async def plainly(message: Message) -> None:
            # Starlette sends this while it handles the error that the lifespan raised.
            if message["type"] == "lifespan.startup.failed" and isinstance(error := sys.exception(), self._known):
                message = {**message, "message": str(error)}
            await send(message)

        await self._app(scope, receive, plainly)
