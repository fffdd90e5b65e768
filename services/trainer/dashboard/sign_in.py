"""Signing in to the dashboard, where the service asks for a token: a browser can't send a bearer token by itself.

Whoever shows a token that opens jobs gets a cookie. It holds no token: it is the time of its end and a keyed digest of
that time, so it outlives a restart of the service and ends with the token. Requests that carry it go on as if they
carried the token: those that only read, and the pages' own connection. Other requests of the API take the token itself.
"""

import hashlib
import hmac
import time
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from services.trainer.dashboard.sign_in_page import sign_in_page
from shared.service import Scope as TokenScope
from shared.service import Tokens

COOKIE = "gagpo_session"
LASTS_S = 7 * 24 * 3600
PATH = "/sign-in"
OUT_PATH = "/sign-out"
_CONNECTION = "/_nicegui_ws/"
_READING = frozenset({"GET", "HEAD"})
_MOST_FORM_BYTES = 8192


class SignIn:
    """ASGI middleware around the one that asks for bearer tokens."""

    def __init__(self, app: ASGIApp, tokens: Tokens, own_token: str | None) -> None:
        """``tokens`` are those of this server; ``own_token`` is one that opens jobs, as clients of it are given."""
        if own_token is None:
            raise ValueError("own_token = None: sessions need a token that opens jobs")
        self._app = app
        self._tokens = tokens
        self._bearer = f"Bearer {own_token}".encode()
        self._key = hashlib.sha256(b"gagpo dashboard session " + own_token.encode()).digest()
        self._own = Starlette(
            routes=[
                Route(PATH, self._show, methods=["GET"]),
                Route(PATH, self._take, methods=["POST"]),
                Route(OUT_PATH, self._leave, methods=["GET"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what signing in is about, and vouch for those who have."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        path, headers = scope["path"], Headers(scope=scope)
        if scope["type"] == "http" and path in (PATH, OUT_PATH):
            await self._own(scope, receive, send)
        elif "authorization" in headers:
            await self._app(scope, receive, send)
        elif _may_vouch(scope) and self._signed_in(scope):
            vouched = {**scope, "headers": [*scope["headers"], (b"authorization", self._bearer)]}
            await self._app(vouched, receive, send)
        elif _wants_page(scope, headers):
            wanted = path + (f"?{scope['query_string'].decode()}" if scope["query_string"] else "")
            await RedirectResponse(f"{PATH}?next={quote(wanted)}", 303)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _signed_in(self, scope: Scope) -> bool:
        ends, _, digest = HTTPConnection(scope).cookies.get(COOKIE, "").partition(".")
        if not ends.isascii() or not ends.isdigit() or int(ends) < time.time():
            return False
        return hmac.compare_digest(digest.encode(), self._digest(ends).encode())

    def _digest(self, ends: str) -> str:
        return hmac.new(self._key, ends.encode(), hashlib.sha256).hexdigest()

    async def _show(self, request: Request) -> Response:
        return HTMLResponse(sign_in_page(_local(request.query_params.get("next"))))

    async def _take(self, request: Request) -> Response:
        if int(request.headers.get("content-length", _MOST_FORM_BYTES + 1)) > _MOST_FORM_BYTES:
            return HTMLResponse(sign_in_page("/", "That is too long for a token."), 413)
        async with request.form() as form:
            token, onward = str(form.get("token", "")).strip(), _local(str(form.get("next", "/")))
        if TokenScope.JOBS not in self._tokens.scopes_of(token.encode()):
            return HTMLResponse(sign_in_page(onward, "That token does not open this service."), 401)
        ends = str(int(time.time()) + LASTS_S)
        answer = RedirectResponse(onward, 303)
        answer.set_cookie(
            COOKIE,
            f"{ends}.{self._digest(ends)}",
            max_age=LASTS_S,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _leave(self, request: Request) -> Response:
        answer = RedirectResponse(PATH, 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return answer


def _may_vouch(scope: Scope) -> bool:
    """Whether a cookie is enough: other sites can make a browser send requests, but with Lax cookies read at most."""
    return scope["type"] == "websocket" or scope["method"] in _READING or scope["path"].startswith(_CONNECTION)


def _wants_page(scope: Scope, headers: Headers) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get("accept", "")


def _local(path: str | None) -> str:
    """The path if it leads to this service, else the first page: nobody is sent elsewhere from here."""
    if path is None or not path.startswith("/") or path.startswith(("//", "/\\")) or urlsplit(path).netloc:
        return "/"
    return path
