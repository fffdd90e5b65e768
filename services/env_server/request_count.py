"""Counts HTTP requests by route and status."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.env_server.metrics import EnvServerMetrics


class RequestCount:
    """ASGI middleware; the route is its template, so that ids do not become labels."""

    def __init__(self, app: ASGIApp, metrics: EnvServerMetrics) -> None:
        """Counts into ``metrics.requests``."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and look at the status of its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                self._metrics.requests.labels(scope["method"], route, str(message["status"])).inc()
            await send(message)

        await self._app(scope, receive, counting)
