"""The routes of vLLM's own app that are reachable from outside. What is not listed here does not exist."""

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from services.policy_server.engine import EngineHost

REACHABLE = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/tokenize",
        "/detokenize",
        "/version",
    }
)
"""Nothing that changes the engine's state: LoRA loading, pausing, sleeping and remote calls stay inside."""


class OpenAiRoutes:
    """An ASGI app that passes the reachable paths on to vLLM's app and answers 404 to all others."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"].rstrip("/") not in REACHABLE:
            raise HTTPException(404, "Not Found")
        app = self._host.require().openai
        # As if vLLM's app were the outermost one, since it finds its state through the scope.
        await app({**scope, "root_path": "", "app": app}, receive, send)
