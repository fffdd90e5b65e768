"""A job's events: metrics, samples and state changes for the dashboard, in a trimmed Redis stream (DESIGN §6)."""

import time
from collections.abc import AsyncIterator, Container, Iterator, Mapping
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from shared.buffer.connection import connect, connect_async
from shared.buffer.keys import JobKeys

MAX_EVENTS = 10_000
"""About how many events are kept; the oldest go first."""

FROM_START = "0"
"""The id before every event."""

MAX_BLOCK_S = 20.0
"""The longest that one read waits."""

_BATCH = 256

Payload = Mapping[str, JsonValue]

_Entry = tuple[bytes, dict[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened in a job."""

    id: str
    """Its place in the stream: pass it as ``after_id`` to go on behind it."""
    kind: str
    time: float
    """Unix time, seconds."""
    payload: dict[str, JsonValue]


class EventWriter:
    """Emits events, blocking; the trainer's end."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect(redis_url)
        self._keys = JobKeys(job)

    def emit(self, kind: str, payload: Payload) -> None:
        """Append an event. Numbers that JSON does not have (NaN, infinities) become null; numpy's become plain ones."""
        self._redis.xadd(self._keys.events, _fields(kind, payload), maxlen=MAX_EVENTS, approximate=True)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class AsyncEventWriter:
    """Emits events in asyncio; the orchestrator's end."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)

    async def emit(self, kind: str, payload: Payload) -> None:
        """Append an event, as `EventWriter.emit` does."""
        await self._redis.xadd(self._keys.events, _fields(kind, payload), maxlen=MAX_EVENTS, approximate=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


class EventReader:
    """Reads events in order, blocking."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect(redis_url)
        self._keys = JobKeys(job)

    def read(self, after_id: str = FROM_START, block_s: float = 0.0) -> list[Event]:
        """The next events behind ``after_id``, up to 256; waits up to ``block_s`` (at most 20) seconds for one."""
        return _events(self._redis.xread({self._keys.events: after_id}, count=_BATCH, block=_block_ms(block_s)))

    def follow(self, after_id: str = FROM_START, idle_s: float = 10.0) -> Iterator[Event]:
        """Yield events as they come; ends when none came for ``idle_s`` (at most 20) seconds."""
        while batch := self.read(after_id, idle_s):
            yield from batch
            after_id = batch[-1].id

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class AsyncEventReader:
    """Reads events in order, in asyncio."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)

    async def read(self, after_id: str = FROM_START, block_s: float = 0.0) -> list[Event]:
        """The next events behind ``after_id``, as `EventReader.read` gives them."""
        return _events(await self._redis.xread({self._keys.events: after_id}, count=_BATCH, block=_block_ms(block_s)))

    async def last_id(self) -> str:
        """The id of the newest event; `FROM_START` where there is none."""
        newest = await self._redis.xrevrange(self._keys.events, count=1)
        return newest[0][0].decode() if newest else FROM_START

    async def newest(self, count: int, without: Container[str] = (), look_at: int = 2048) -> list[Event]:
        """Up to ``count`` of the newest events, the oldest of them first, among the newest ``look_at``.

        Events of the kinds ``without`` are passed over.
        """
        found: list[Event] = []
        newest = "+"
        for _ in range(0, look_at, _BATCH):
            entries = await self._redis.xrevrange(self._keys.events, newest, "-", count=_BATCH)
            found += [event for event in map(_event, entries) if event.kind not in without]
            if len(found) >= count or len(entries) < _BATCH:
                break
            newest = f"({entries[-1][0].decode()}"
        return found[:count][::-1]

    async def last(self, kind: str, after_id: str = FROM_START) -> Event | None:
        """The newest event of a kind behind ``after_id``; None where there is none."""
        newest = "+"
        while entries := await self._redis.xrevrange(self._keys.events, newest, f"({after_id}", count=_BATCH):
            for event in map(_event, entries):
                if event.kind == kind:
                    return event
            newest = f"({entries[-1][0].decode()}"
        return None

    async def follow(self, after_id: str = FROM_START, idle_s: float = 10.0) -> AsyncIterator[Event]:
        """Yield events as they come; ends when none came for ``idle_s`` (at most 20) seconds."""
        while batch := await self.read(after_id, idle_s):
            for event in batch:
                yield event
            after_id = batch[-1].id

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _block_ms(block_s: float) -> int | None:
    """What XREAD takes: never beyond the socket's timeout, and None for not waiting, since 0 waits for ever."""
    return None if block_s <= 0 else max(1, int(min(block_s, MAX_BLOCK_S) * 1000))


def _fields(kind: str, payload: Payload) -> dict[str, str | bytes]:
    return {
        "kind": kind,
        "time": repr(time.time()),
        "payload": orjson.dumps(payload, option=orjson.OPT_SERIALIZE_NUMPY),
    }


def _events(reply: list[tuple[bytes, list[_Entry]]]) -> list[Event]:
    return [_event(entry) for entry in reply[0][1]] if reply else []


def _event(entry: _Entry) -> Event:
    identity, fields = entry
    return Event(
        id=identity.decode(),
        kind=fields[b"kind"].decode(),
        time=float(fields[b"time"]),
        payload=orjson.loads(fields[b"payload"]),
    )
