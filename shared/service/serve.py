"""Uvicorn, set up alike for every service."""

from collections.abc import Sequence

import uvicorn
from fastapi import FastAPI

from shared.service.auth import Access
from shared.service.binding import listening_host
from shared.service.http_protocol import BoundedHttpProtocol
from shared.service.listening import listener
from shared.service.tokens import Tokens

LOG_LEVELS = ("debug", "info", "warning", "error")
"""What ``--log-level`` takes."""


def server_config(
    app: FastAPI,
    *,
    host: str,
    port: int,
    tokens: Tokens,
    access: Sequence[Access],
    graceful_timeout_s: int,
    max_message_bytes: int = 1 << 20,
) -> uvicorn.Config:
    """How to serve an app. Call `shared.telemetry.configure_logging` first: Uvicorn's own lines go the same way.

    Listens beyond this machine only where ``tokens`` opens the service. ``graceful_timeout_s`` is how long requests in
    flight may take once the server is told to stop, ``max_message_bytes`` bounds a WebSocket's messages.

    Raises `ListenError`: before the service starts its parts, and with more to say than Uvicorn has afterwards.
    """
    chosen = listening_host(host, tokens, access)
    listener(chosen, port).close()
    return uvicorn.Config(
        app,
        host=chosen,
        port=port,
        loop="uvloop",
        http=BoundedHttpProtocol,
        ws_max_size=max_message_bytes,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=graceful_timeout_s,
    )
