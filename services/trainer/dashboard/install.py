"""Puts the dashboard onto the trainer service's app, behind its API."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.datastructures import MutableHeaders
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.trainer.dashboard.pages import PAGES
from services.trainer.dashboard.shell import Shell
from services.trainer.dashboard.sign_in import SignIn
from services.trainer.server.service import TrainerService
from shared.service import Scope as TokenScope
from shared.service import Tokens, client_token

API = "/v1"
"""Below this everything is the API's, also the paths that it does not know."""

RECONNECT_S = 30.0
"""How long a page is kept for a browser that has lost its connection, or takes its time to make it."""

CONTENT_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Vue compiles templates, ECharts' options hold functions
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    ]
)
"""Browsers load nothing from another host, and no other site may frame a page."""


class _WithoutConnections(logging.Filter):
    """Drops Uvicorn's lines about each page's WebSocket: an access log, with the query strings that no log may have."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = str(record.msg)
        return not ('"WebSocket' in said or said in ("connection open", "connection closed"))


class Dashboard:
    """The pages on their app. NiceGUI keeps one app a process, so there is one of these a process."""

    def __init__(self, app: FastAPI, tokens: Tokens) -> None:
        """Mount the pages behind ``app``'s routes. ``app.state.trainer`` is there once `running` was entered."""
        self._pages = FastAPI(openapi_url=None)
        asks_for_token = tokens.open(TokenScope.JOBS)
        shell = Shell(lambda: _service(app), PAGES, signs_out=asks_for_token)
        ui.run_with(
            self._pages,
            root=shell.draw,
            title="gagpo",
            dark=None,
            language="en-US",
            favicon=shell.icon,
            tailwind=False,
            show_welcome_message=False,
            reconnect_timeout=RECONNECT_S,
        )
        # Else Quasar shows a bar, which has no name for screen readers, while the pages' connection is being made.
        nicegui_app.config.quasar_config["loadingBar"]["skipHijack"] = True
        logging.getLogger("uvicorn.error").addFilter(_WithoutConnections())
        app.router.routes.append(_BehindTheApi(app, _Guarded(self._pages)))
        if asks_for_token:
            # Without a token of its own for jobs the service has one for everything, or is not open at all.
            app.add_middleware(SignIn, tokens=tokens, own_token=client_token(TokenScope.JOBS))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the pages meanwhile; the service's lifespan holds this."""
        async with self._pages.router.lifespan_context(self._pages):
            yield


class _BehindTheApi(Mount):
    """Takes what the API does not: neither its unknown paths, nor its known ones with another method."""

    def __init__(self, api: FastAPI, pages: ASGIApp) -> None:
        super().__init__("", app=pages)
        self._routes_before = list(api.router.routes)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path: str = scope.get("path", "")
        if path == API or path.startswith(f"{API}/"):
            return Match.NONE, {}
        if any(route.matches(scope)[0] is not Match.NONE for route in self._routes_before):
            return Match.NONE, {}
        return super().matches(scope)


class _Guarded:
    """Adds the headers that tell browsers what a page may do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = CONTENT_POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
            await send(message)

        await self._app(scope, receive, sending)


def _service(app: FastAPI) -> TrainerService:
    service: TrainerService = app.state.trainer
    return service
