"""Turns of running episodes, from the orchestrators to whoever watches a job.

They are told only while somebody watches: training that nobody watches pays for one look a second. A watcher keeps the
key ``watched`` alive, whose value says who came last: whenever that changes, the orchestrators tell their running
episodes again from the beginning, and `TurnReader` passes over what it has told already.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shared.buffer.connection import connect_async
from shared.buffer.events import FROM_START
from shared.buffer.keys import JobKeys
from shared.live_episodes import Unrepeated
from shared.schemas.turns import LiveRecord, live_record

WATCH_TTL_S = 15
"""How long a job counts as watched after its watcher was last heard of."""

MAX_RECORDS = 4_000
"""About how many records are kept, a few hundred bytes each; the oldest go first."""

KEPT_S = 60
"""How long records are kept after the newest one."""

_RENEW_S = WATCH_TTL_S / 3
_BATCH = 512
_FIELD = b"record"


class TurnWriter:
    """The orchestrator's end. Does not wait for a Redis that is away: what is told late is told in vain."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect_async(redis_url, retry_deadline_s=0)
        self._keys = JobKeys(job)

    async def watcher(self) -> str | None:
        """Who came last to watch; None while nobody watches."""
        value = await self._redis.get(self._keys.watched)
        return None if value is None else value.decode()

    async def add(self, records: Sequence[LiveRecord]) -> None:
        """Tell something."""
        pipeline = self._redis.pipeline(transaction=False)
        for record in records:
            fields = {_FIELD: record.model_dump_json()}
            pipeline.xadd(self._keys.turns, fields, maxlen=MAX_RECORDS, approximate=True)
        pipeline.expire(self._keys.turns, KEPT_S)
        await pipeline.execute()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


@dataclass(frozen=True, slots=True)
class Told:
    """A record, and its place in the stream."""

    id: str
    record: LiveRecord


class TurnReader:
    """A watcher's end: whoever reads watches."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet, and is no watcher yet."""
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)
        self._token = secrets.token_hex(8)
        self._position = FROM_START
        self._renew_at = 0.0
        self._arrived = False
        self._unrepeated = Unrepeated()
        self.lapses = 0
        """How often the job has not counted as watched in between. What is played is told again then, but the end of an
        episode may have been missed: begin with nothing."""

    async def read(self, block_s: float = 0.0) -> list[Told]:
        """What was told since the last read, each record once; waits up to ``block_s`` (at most 5) seconds for some.

        The first read also gives what was told lately to others. Read at least every ten seconds to go on watching.
        """
        await self._keep_watching()
        block_ms = None if block_s <= 0 else max(1, int(1000 * min(block_s, _RENEW_S)))  # 0 would wait for ever
        reply = await self._redis.xread({self._keys.turns: self._position}, count=_BATCH, block=block_ms)
        entries = reply[0][1] if reply else []
        if entries:
            self._position = entries[-1][0].decode()
        told = [Told(identity.decode(), live_record.validate_json(fields[_FIELD])) for identity, fields in entries]
        return [one for one in told if self._unrepeated.takes(one.record)]

    async def close(self) -> None:
        """Close the connections. The job counts as watched a little longer."""
        await self._redis.aclose()

    async def _keep_watching(self) -> None:
        now = time.monotonic()
        if now < self._renew_at:
            return
        if not self._arrived:
            await self._arrive()
        elif not await self._redis.expire(self._keys.watched, WATCH_TTL_S):
            self.lapses += 1
            self._unrepeated = Unrepeated()
            await self._arrive()
        self._renew_at = now + _RENEW_S

    async def _arrive(self) -> None:
        await self._redis.set(self._keys.watched, self._token, ex=WATCH_TTL_S)
        self._arrived = True
