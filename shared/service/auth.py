"""Who may use which path: an ASGI middleware, so that it also guards WebSockets and mounted apps.

A service says beside its routes which scopes open them::

    ACCESS = [Access("/v1/jobs", {Scope.JOBS})]

The first rule that fits a request counts. A path that no rule names takes a token with every scope of the service.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from shared.problems import ProblemError, problem_response
from shared.service.tokens import Scope, Tokens

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""What those who operate a service ask for; no token needed."""

_SCHEME = b"bearer "


@dataclass(frozen=True, slots=True)
class Access:
    """Any one of the scopes opens a path and all below it."""

    path: str
    scopes: Collection[Scope]
    methods: Collection[str] | None = None
    """The HTTP methods that the rule is about; None for all of them, and for WebSockets."""

    def covers(self, path: str, method: str) -> bool:
        """Whether the rule is about such a request."""
        if self.methods is not None and method not in self.methods:
            return False
        return path.startswith(self.path) and (len(path) == len(self.path) or path[len(self.path)] == "/")


class BearerAuth:
    """Lets a request through when its token opens the path, else answers 401 or 403."""

    def __init__(self, app: ASGIApp, tokens: Tokens, access: Sequence[Access]) -> None:
        """``access`` holds the service's rules, the first that fits counts."""
        self._app = app
        self._tokens = tokens
        self._access = tuple(access)
        self._every = frozenset(scope for rule in access for scope in rule.scopes)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before any of its body is read."""
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(refusal, scope["path"])(scope, receive, send)

    def _refusal(self, scope: AsgiScope) -> ProblemError | None:
        token = _presented(scope)
        if token is None:
            return _unauthorized("This path takes a token: send 'Authorization: Bearer <token>'.", "Bearer")
        opened = self._tokens.scopes_of(token)
        if not opened:
            return _unauthorized("The token is none of this server's.", 'Bearer error="invalid_token"')
        path, method = scope["path"], scope.get("method", "GET")
        for rule in self._access:
            if rule.covers(path, method):
                return None if any(one in opened for one in rule.scopes) else _forbidden(rule.scopes, "one")
        return None if opened >= self._every else _forbidden(self._every, "all")


def _presented(scope: AsgiScope) -> bytes | None:
    """The request's token; None without one. Of two Authorization headers neither counts."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1 or values[0][: len(_SCHEME)].lower() != _SCHEME:
        return None
    return values[0][len(_SCHEME) :].strip()


def _unauthorized(detail: str, challenge: str) -> ProblemError:
    return ProblemError(401, "unauthorized", "A token is needed", detail, headers={"WWW-Authenticate": challenge})


def _forbidden(scopes: Collection[Scope], how_many: str) -> ProblemError:
    names = sorted(scopes)
    detail = f"The token does not open this path: it needs {how_many} of the scopes {', '.join(names)}."
    challenge = f'Bearer error="insufficient_scope", scope="{" ".join(names)}"'
    return ProblemError(
        403, "forbidden", "The token does not open this", detail, headers={"WWW-Authenticate": challenge}
    )
