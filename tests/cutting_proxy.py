"""A TCP proxy that cuts connections in the middle of an answer, as a bad network does."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(slots=True)
class CuttingProxy:
    """Passes bytes between clients and a server; some connections end early."""

    upstream: str
    cuts: list[int]
    """How many bytes of answers the next connections may carry, one after the other; no bound once it is empty."""
    url: str = ""
    requests: list[str] = field(default_factory=list)
    """The heads of the requests that came, in order."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        address = urlsplit(self.upstream)
        server_reader, server_writer = await asyncio.open_connection(address.hostname, address.port)
        bound = self.cuts.pop(0) if self.cuts else None
        upwards = asyncio.create_task(self._upwards(reader, server_writer))
        # A cancelled handler is one whose proxy ends; asyncio of Python 3.11 would report it as an error.
        with contextlib.suppress(asyncio.CancelledError):
            await _downwards(server_reader, writer, bound)
        upwards.cancel()
        for one in (writer, server_writer):
            one.transport.abort()

    async def _upwards(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            self.requests.append(chunk.decode(errors="replace"))
            writer.write(chunk)
            await writer.drain()


async def _downwards(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bound: int | None) -> None:
    passed = 0
    while chunk := await reader.read(65536):
        kept = chunk if bound is None else chunk[: bound - passed]
        writer.write(kept)
        await writer.drain()
        passed += len(kept)
        if bound is not None and passed >= bound:
            return
    writer.close()


@contextlib.contextmanager
def cutting_proxy(upstream: str, cuts: Sequence[int]) -> Iterator[CuttingProxy]:
    """A proxy before ``upstream`` on a free port, in a thread of its own."""
    proxy = CuttingProxy(upstream, list(cuts))
    started, stopped = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
            proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))  # at its end it cancels the connections there are
    thread.start()
    try:
        assert started.wait(5)
        yield proxy
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(5)
