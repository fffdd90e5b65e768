"""Following a stream over connections that get lost: where to go on, how long to wait, when to give up.

Knows neither sockets nor clocks of its own, so that the blocking and the asyncio client share it.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import httpx
from httpx_sse import EventSource, ServerSentEvent
from pydantic import JsonValue, TypeAdapter

from gagpo.client.calls import job_path
from gagpo.client.errors import JobError, refusal, unreachable
from shared.live_episodes import Unrepeated
from shared.schemas.job import JobEvent
from shared.schemas.turns import LiveRecord, live_record

log = logging.getLogger(__name__)

TIMEOUT_S = 30.0
"""How long any one wait for the server may take, unless a client is told otherwise."""

READ_TIMEOUT_S = 60.0
"""A stream that is silent for so long is taken for lost: the server sends a comment far more often."""

_AWAY = frozenset({502, 503, 504})
"""What a proxy, or a server that starts, answers while there is nobody to ask."""
_LOG = "log"

Item = TypeVar("Item", covariant=True)

_PAYLOAD = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class Patience:
    """How lost connections are dealt with."""

    give_up_s: float = 300.0
    """A server that is away for longer is an error."""
    wait_first_s: float = 0.5
    """Before the first attempt to connect again; doubles with each."""
    wait_most_s: float = 10.0


class Reconnecting:
    """Counts how long a server has been away."""

    def __init__(self, url: str, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        """``url`` is told in errors."""
        self._url = url
        self._patience = patience
        self._clock = clock
        self._away_since: float | None = None
        self._wait_s = patience.wait_first_s

    def answered(self, response: httpx.Response) -> bool:
        """Whether there is an answer to read: not where nobody is behind a proxy, and not when all was said already.

        Raises `JobError` for a refusal, whose body must have been read.
        """
        if response.status_code in _AWAY or response.status_code == httpx.codes.NO_CONTENT:
            return False
        if not response.is_success:
            raise refusal(response)
        return True

    def progress(self) -> None:
        """Something came: the next lost connection is not one of a row."""
        self._away_since = None
        self._wait_s = self._patience.wait_first_s

    def lost(self, error: httpx.TransportError | None = None) -> float:
        """Seconds to wait before connecting again. Raises `JobError` once nothing came for ``give_up_s``."""
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
            log.warning("the connection to %s was lost; trying again for %.0f s", self._url, self._patience.give_up_s)
        if now - self._away_since >= self._patience.give_up_s:
            raise unreachable(self._url, error or httpx.ReadError("nobody behind the proxy")) from error
        return self._next_wait()

    def ended(self) -> float:
        """Seconds to wait before connecting again to a server that ended a stream in good order."""
        self._away_since = None
        return self._next_wait()

    def _next_wait(self) -> float:
        wait, self._wait_s = self._wait_s, min(2 * self._wait_s, self._patience.wait_most_s)
        return wait


def events_in(response: httpx.Response) -> EventSource:
    """The events of a stream's answer. Raises `JobError` for an answer that is no stream."""
    kind = response.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        # httpx-sse would say so with a transport error, which is for connections that are worth making again.
        raise JobError(
            f"GET {response.request.url.path}: the answer is {kind or 'of no type'} and not a stream of events: is it "
            f"the job server that listens at {response.request.url.host}?",
            status=response.status_code,
        )
    return EventSource(response)


class Stream(Protocol[Item]):
    """A stream of server-sent events, wherever one connection ends and the next begins."""

    path: str

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the next connection."""

    def take(self, sse: ServerSentEvent) -> Item | None:
        """What an event of the stream says; None for one that only keeps the connection alive."""


class _Resumable:
    """A stream that is gone on with behind the last event that came."""

    def __init__(self, path: str, after: str | None = None) -> None:
        self.path = path
        self._after = after

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the next connection."""
        headers = {"accept": "text/event-stream", "cache-control": "no-store"}
        return headers if self._after is None else {**headers, "last-event-id": self._after}

    def _advance(self, sse: ServerSentEvent) -> None:
        if sse.id:
            self._after = sse.id


class EventStream(_Resumable):
    """``GET /v1/jobs/{id}/events``."""

    def __init__(self, job: str, after: str | None) -> None:
        """``after`` is the id of the last event seen; None begins with the oldest that the server keeps."""
        super().__init__(job_path(job, "events"), after)

    def take(self, sse: ServerSentEvent) -> JobEvent | None:
        """The event."""
        if not sse.data:
            return None
        self._advance(sse)
        return JobEvent(id=sse.id, kind=sse.event, payload=_PAYLOAD.validate_json(sse.data))


class TurnStream:
    """``GET /v1/jobs/{id}/turns``: begins anew with each connection, so what was told already is passed over."""

    def __init__(self, job: str) -> None:
        """Begins with what is being played now."""
        self.path = job_path(job, "turns")
        self._unrepeated = Unrepeated()

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the next connection."""
        return {"accept": "text/event-stream", "cache-control": "no-store"}

    def take(self, sse: ServerSentEvent) -> LiveRecord | None:
        """The record."""
        if not sse.data:
            return None
        record = live_record.validate_json(sse.data)
        return record if self._unrepeated.takes(record) else None


class LogStream(_Resumable):
    """``GET /v1/jobs/{id}/logs?follow=true``."""

    def __init__(self, job: str, tail: int) -> None:
        """Begins with so many of the last lines."""
        super().__init__(f"{job_path(job, 'logs')}?follow=true&tail={tail}")

    def take(self, sse: ServerSentEvent) -> list[str] | None:
        """The lines."""
        if sse.event != _LOG:
            return None
        self._advance(sse)
        return sse.data.split("\n")
