"""Which job server to talk to, and as whom."""

import os
from dataclasses import dataclass, field

import httpx

from shared.service.tokens import Scope, client_token

DEFAULT_SERVER = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Server:
    """A job server's address."""

    url: str
    """Without a slash at the end."""
    token: str | None = field(repr=False)
    """The bearer token; None where the server asks for none."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}


def find_server(url: str | None = None, token: str | None = None) -> Server:
    """What is given, else ``GAGPO_SERVER`` and ``GAGPO_TOKEN_JOBS`` or ``GAGPO_TOKEN``, else this machine's port 8000.

    Raises `ValueError` for a URL that is not one of HTTP, and for a variable that holds no possible token.
    """
    address = (url or os.environ.get("GAGPO_SERVER") or DEFAULT_SERVER).rstrip("/")
    if not _is_http(address):
        raise ValueError(f"server = {address!r}: give a URL such as {DEFAULT_SERVER}")
    return Server(address, token or client_token(Scope.JOBS))


def _is_http(address: str) -> bool:
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)
