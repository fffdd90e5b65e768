"""The journal: each session's birth and its actions so far. It is the truth; live episodes are its shadows.

In Redis a session is a list: the birth, then one element for each action. An action is appended only where the list
has the length that the server believes (`journal_append.lua`), so two replicas can never both append the same step.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.env_server.worker_protocol import Birth

_Answer = TypeVar("_Answer")

_decode_birth = msgspec.msgpack.Decoder(Birth).decode
_encode_birth = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Record:
    """A session as the journal holds it."""

    birth: Birth
    actions: list[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One action to append: the session's step ``step_index``."""

    session_id: str
    step_index: int
    action: str


class JournalUnavailableError(Exception):
    """The journal did not answer: what was to be written may or may not be written."""


class Journal(Protocol):
    """Where sessions outlive the processes that hold them. Every method raises `JournalUnavailableError`."""

    async def create(self, session_ids: Sequence[str], birth: Birth) -> list[bool]:
        """Record new sessions without actions; False for one that is there already, which stays as it is."""
        ...

    async def append(self, entries: Sequence[Entry]) -> list[bool]:
        """Append each action that is the session's next; False where the journal is elsewhere. One round trip."""
        ...

    async def load(self, session_ids: Sequence[str]) -> list[Record | None]:
        """The sessions, None for one that is not there; their time to live starts anew. One round trip."""
        ...

    async def delete(self, session_ids: Sequence[str]) -> list[bool]:
        """Remove sessions; False for one that was not there."""
        ...

    async def expire(self, session_ids: Sequence[str]) -> None:
        """The server has not touched these for their time to live. What others still use stays."""
        ...

    async def ping(self) -> None:
        """Whether the journal answers."""
        ...


class MemoryJournal:
    """A journal that ends with the process; for one server without Redis."""

    def __init__(self) -> None:
        """Empty at first."""
        self._records: dict[str, Record] = {}

    async def create(self, session_ids: Sequence[str], birth: Birth) -> list[bool]:
        """See `Journal`."""
        new = [session_id not in self._records for session_id in session_ids]
        for session_id in session_ids:
            self._records.setdefault(session_id, Record(birth, []))
        return new

    async def append(self, entries: Sequence[Entry]) -> list[bool]:
        """See `Journal`."""
        appended = []
        for entry in entries:
            record = self._records.get(entry.session_id)
            fits = record is not None and len(record.actions) == entry.step_index
            if record is not None and fits:
                record.actions.append(entry.action)
            appended.append(fits)
        return appended

    async def load(self, session_ids: Sequence[str]) -> list[Record | None]:
        """See `Journal`."""
        found = [self._records.get(session_id) for session_id in session_ids]
        return [None if record is None else Record(record.birth, list(record.actions)) for record in found]

    async def delete(self, session_ids: Sequence[str]) -> list[bool]:
        """See `Journal`."""
        return [self._records.pop(session_id, None) is not None for session_id in session_ids]

    async def expire(self, session_ids: Sequence[str]) -> None:
        """See `Journal`: nobody else uses this one."""
        await self.delete(session_ids)

    async def ping(self) -> None:
        """See `Journal`: it is here."""


class RedisJournal:
    """A journal in Redis, shared by all replicas with the same prefix."""

    def __init__(self, redis: Redis, prefix: str, ttl_s: float, deadline_s: float) -> None:
        """The client must not decode answers. ``ttl_s`` starts anew with every append and load."""
        self._redis = redis
        self._prefix = f"{prefix}:sessions:"
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._deadline_s = deadline_s
        # Scripts, because one command of many keys costs far less on both sides than a pipeline of many commands.
        self._create = redis.register_script(Path(__file__).with_name("journal_create.lua").read_text())
        self._append = redis.register_script(Path(__file__).with_name("journal_append.lua").read_text())

    async def create(self, session_ids: Sequence[str], birth: Birth) -> list[bool]:
        """See `Journal`."""
        arguments = [self._ttl_ms, _encode_birth(birth)]
        answers = await self._within_deadline(self._create(keys=self._keys(session_ids), args=arguments))
        return [answer == 1 for answer in answers]

    async def append(self, entries: Sequence[Entry]) -> list[bool]:
        """See `Journal`."""
        arguments: list[bytes | int] = [self._ttl_ms]
        for entry in entries:
            arguments += [entry.step_index + 1, entry.action.encode()]
        keys = self._keys(entry.session_id for entry in entries)
        answers = await self._within_deadline(self._append(keys=keys, args=arguments))
        return [answer == 1 for answer in answers]

    async def load(self, session_ids: Sequence[str]) -> list[Record | None]:
        """See `Journal`."""
        pipeline = self._redis.pipeline(transaction=False)
        for key in self._keys(session_ids):
            pipeline.lrange(key, 0, -1)
            pipeline.pexpire(key, self._ttl_ms)
        answers = await self._within_deadline(pipeline.execute())
        return [_record(elements) for elements in answers[::2]]

    async def delete(self, session_ids: Sequence[str]) -> list[bool]:
        """See `Journal`."""
        pipeline = self._redis.pipeline(transaction=False)
        for key in self._keys(session_ids):
            pipeline.delete(key)
        return [count == 1 for count in await self._within_deadline(pipeline.execute())]

    async def expire(self, session_ids: Sequence[str]) -> None:
        """See `Journal`: Redis counts for itself, over all replicas."""

    async def ping(self) -> None:
        """See `Journal`."""
        await self._within_deadline(self._redis.ping())

    def _keys(self, session_ids: Iterable[str]) -> list[str]:
        return [self._prefix + session_id for session_id in session_ids]

    async def _within_deadline(self, answer: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await answer
        except (RedisError, TimeoutError, OSError) as error:
            raise JournalUnavailableError(f"{type(error).__name__}: {error}") from error


def _record(elements: Sequence[bytes]) -> Record | None:
    if not elements:
        return None
    return Record(_decode_birth(elements[0]), [element.decode() for element in elements[1:]])
