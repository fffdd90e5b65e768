"""Server-sent events, as the HTML standard spells them."""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

HEARTBEAT = b": alive\n\n"
"""A comment, which clients skip; it shows that the connection is."""


def sse(identity: str, event: str, data: str) -> bytes:
    """One event; line ends within ``data`` come out as line feeds."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"id: {identity}\nevent: {event}\n{lines}\n".encode()


def sse_response(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer that sends events as they come, unbuffered also behind a proxy."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
