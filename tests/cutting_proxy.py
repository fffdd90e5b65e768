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
        try:
            await _downwards(server_reader, writer, bound)
        finally:
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
    loop, started = asyncio.new_event_loop(), threading.Event()

    async def run() -> None:
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await server.serve_forever()

    def work() -> None:
        asyncio.set_event_loop(loop)
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
        loop.run_until_complete(loop.shutdown_asyncgens())

    serving = loop.create_task(run())
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert started.wait(5)
        yield proxy
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join(5)
        loop.close()
