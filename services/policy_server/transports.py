"""How pushed weights reach the server: each transport turns a source into a folder that the engine can read.

NCCL is the exception: its tensors go from GPU to GPU and are never a folder; `services.policy_server.weights` hands
them to vLLM's own engine.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import httpx

from shared.problems import ProblemError
from shared.schemas.policy import WeightFile, WeightStream

MAX_GROWTH = 4
"""A stream of more than this many times the model's own size is cut off: no dtype makes it that large."""


class Transport(Protocol):
    """Brings one push's weights within reach."""

    def folder(self) -> "AsyncContext":
        """A context whose value is a folder of ``*.safetensors``; what was fetched is removed at its end."""


class AsyncContext(Protocol):
    """An async context manager that gives a folder."""

    async def __aenter__(self) -> Path: ...

    async def __aexit__(self, *_: object) -> bool | None: ...


class FileTransport:
    """The folder is on a volume that both sides see."""

    def __init__(self, source: WeightFile) -> None:
        self._path = Path(source.path)

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """The folder itself. Raises a 422 problem where it is not there."""
        if not self._path.is_dir():
            detail = (
                f"source.path {self._path} is not a folder that this server can see; mount the volume on both sides"
            )
            raise ProblemError(422, "weights-not-found", "There are no weights", detail)
        yield self._path


class HttpTransport:
    """The server fetches one safetensors stream and spools it."""

    def __init__(self, source: WeightStream, spool: Path | None, timeout: float, model_bytes: int) -> None:
        """``timeout``: longest silence, seconds. ``model_bytes``: size of the model's own files."""
        self._url = source.url
        self._spool = spool
        self._timeout = timeout
        self._limit = model_bytes * MAX_GROWTH + (1 << 20)

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """A temporary folder with the stream as a file. Raises a 502 problem where the peer does not deliver it."""
        with tempfile.TemporaryDirectory(prefix="gagpo-weights-", dir=self._spool) as name:
            folder = Path(name)
            try:
                await self._fetch(folder / "model.safetensors")
            except httpx.HTTPError as error:
                detail = f"GET {self._shown()} failed: {_reason(error)}; the weights stay as they were"
                raise ProblemError(502, "weights-fetch-failed", "The weights could not be fetched", detail) from error
            except httpx.InvalidURL as error:
                detail = f"source.url is not a URL: {error}"
                raise ProblemError(422, "invalid-request", "The request is not valid", detail) from error
            yield folder

    def _shown(self) -> str:
        """The URL without its path, which is the trainer's secret, and without a password."""
        url = httpx.URL(self._url)
        return f"{url.scheme}://{url.host}:{url.port}/…" if url.port else f"{url.scheme}://{url.host}/…"

    async def _fetch(self, target: Path) -> None:
        received = 0
        async with (
            httpx.AsyncClient(timeout=self._timeout, trust_env=False) as client,
            client.stream("GET", self._url) as response,
        ):
            response.raise_for_status()
            with target.open("wb") as file:
                async for chunk in response.aiter_bytes(1 << 20):
                    received += len(chunk)
                    if received > self._limit:
                        detail = f"{self._shown()} sends more than {self._limit} bytes, which these weights can't need"
                        raise ProblemError(422, "weights-mismatch", "The weights do not fit the model", detail)
                    await asyncio.to_thread(file.write, chunk)


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the answer is {error.response.status_code}"  # httpx's own words name the whole URL
    return str(error) or type(error).__name__
