"""Trajectory groups on their way from the orchestrator to the trainer, through one Redis stream a job (DESIGN §6).

The promises: a group is added once, whoever retries; it stays until a checkpoint covers it; a reader that starts again
gets everything that was not released, so nothing is lost; and a training step below the frontier can't come back, so
nothing is used twice.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from redis.exceptions import ResponseError

from shared.buffer.codec import decode_group, encode_group
from shared.buffer.connection import CONNECTION_ERRORS, connect, connect_async
from shared.buffer.keys import JobKeys
from shared.trajectory import Group

CONSUMER_GROUP = "trainer"

_ADD = (Path(__file__).parent / "add_group.lua").read_text()
_RELEASE = (Path(__file__).parent / "release_groups.lua").read_text()
_TAKE_FIGURES = (Path(__file__).parent / "take_figures.lua").read_text()

_KEEP_FIGURES_S = 7 * 24 * 3600
_FULL_WAIT_FIRST_S = 0.05
_FULL_WAIT_MOST_S = 1.0
_READ_BLOCK_MS = 500
_READ_COUNT = 16
_RECONNECT_WAIT_MOST_S = 2.0


class BufferTimeoutError(TimeoutError):
    """The other side did not come within the deadline."""


class ReleasedStepError(LookupError):
    """A training step that was released already was asked for."""


@dataclass(frozen=True, slots=True)
class BufferState:
    """What the buffer holds."""

    frontier: int
    """The first training step that no checkpoint covers yet; all groups below are consumed for good."""
    present: dict[int, frozenset[int]]
    """Training step → indices of the groups, or tombstones, that were added."""
    held_bytes: int
    """Bytes of payloads held."""


class GroupWriter:
    """Adds groups; the orchestrator's end. Several may write to one job."""

    def __init__(self, redis_url: str, job: str, limit_bytes: int) -> None:
        """``limit_bytes`` bounds what the buffer holds; 0 does not. Opens no connection yet."""
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)
        self._limit_bytes = limit_bytes
        self._add_script = self._redis.register_script(_ADD)
        self._take_figures_script = self._redis.register_script(_TAKE_FIGURES)

    async def __aenter__(self) -> Self:
        """Return the writer itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def add(self, group: Group, deadline_s: float = 3600.0, figures: bytes = b"") -> bool:
        """Add a group; False when its ``(step, index)`` was added before, or is below the frontier.

        ``figures`` is what `take_figures` will give of it. Waits while the buffer is full. Raises `BufferTimeoutError`
        when it still is after ``deadline_s`` seconds.
        """
        # Compressing a large group takes tens of milliseconds, in which other episodes should go on.
        payload = await asyncio.to_thread(encode_group, group)
        give_up = time.monotonic() + deadline_s
        wait = _FULL_WAIT_FIRST_S
        while True:
            outcome = await self._add(group.step, group.index, "group", payload, self._limit_bytes, figures)
            if outcome != b"full":
                return bool(outcome == b"added")
            if time.monotonic() + wait > give_up:
                raise BufferTimeoutError(
                    f"group {group.step}:{group.index} ({len(payload)} bytes) found the buffer full (limit "
                    f"{self._limit_bytes} bytes) for {deadline_s:.0f} s: is the trainer running? "
                    "rollout.buffer_bytes raises the limit"
                )
            await asyncio.sleep(wait)
            wait = min(2 * wait, _FULL_WAIT_MOST_S)

    async def drop(self, step: int, index: int, reason: str, figures: bytes = b"") -> bool:
        """Say that a group will never come, so that the trainer does not wait for it; False when it had been added."""
        return bool(await self._add(step, index, "dropped", reason.encode(), 0, figures) == b"added")

    async def take_figures(self, step: int, count: int) -> list[bytes]:
        """The figures of a training step's groups once all ``count`` were added or dropped, by whomever; else none.

        They are handed out once: of all writers, only the first who asks gets them.
        """
        figures: list[bytes] = await self._take_figures_script(keys=[self._keys.figures(step)], args=[count])
        return figures

    async def state(self) -> BufferState:
        """What the buffer holds now."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.get(self._keys.frontier)
        pipeline.hkeys(self._keys.seen)
        pipeline.get(self._keys.held_bytes)
        frontier, fields, held = await pipeline.execute()
        present: dict[int, set[int]] = {}
        for field in fields:
            step, index = field.split(b":")
            present.setdefault(int(step), set()).add(int(index))
        return BufferState(
            frontier=int(frontier or 0),
            present={step: frozenset(indices) for step, indices in present.items()},
            held_bytes=int(held or 0),
        )

    async def present(self, step: int) -> frozenset[int]:
        """Indices of a training step's groups, or tombstones, that were added.

        Raises `ReleasedStepError` below the frontier.
        """
        state = await self.state()
        if step < state.frontier:
            raise ReleasedStepError(
                f"training step {step} is below the frontier {state.frontier}: it was consumed whole"
            )
        return state.present.get(step, frozenset())

    async def _add(self, step: int, index: int, kind: str, payload: bytes, limit: int, figures: bytes) -> bytes:
        keys = self._keys
        outcome: bytes = await self._add_script(
            keys=[keys.groups, keys.seen, keys.held_bytes, keys.frontier, keys.wanted, keys.figures(step)],
            args=[step, index, kind, payload, limit, figures, _KEEP_FIGURES_S],
        )
        return outcome


class GroupReader:
    """Reads training steps; the trainer's end. One at a time a job: a second reader takes over from the first."""

    def __init__(self, redis_url: str, job: str, consumer: str | None = None) -> None:
        """Takes over every entry that was not released, also what a dead consumer had read.

        ``consumer`` is this reader's name in Redis, host and process by default.
        """
        self._redis = connect(redis_url)
        # A repeated XREADGROUP would skip what the lost answer held, so reads are not retried by the client but here.
        self._read_redis = connect(redis_url, retry_deadline_s=0)
        self._keys = JobKeys(job)
        self._consumer = consumer or f"{socket.gethostname()}-{os.getpid()}"
        self._release_script = self._redis.register_script(_RELEASE)
        self._payloads: dict[int, dict[int, bytes]] = {}
        self._dropped: dict[int, dict[int, str]] = {}
        self._next_step = 0
        self.rewind()

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()
        self._read_redis.close()

    def rewind(self) -> None:
        """Go back to the oldest entry that was not released: everything from there is read again."""
        self._payloads.clear()
        self._dropped.clear()
        self._next_step = self.frontier()
        self._redis.delete(self._keys.wanted)
        self._read_from_start()

    def frontier(self) -> int:
        """The first training step that was not released."""
        return int(self._redis.get(self._keys.frontier) or 0)

    def held_bytes(self) -> int:
        """Bytes held in Redis. Near the limit a checkpoint and `release` make room."""
        return int(self._redis.get(self._keys.held_bytes) or 0)

    def read_step(
        self, step: int, count: int, deadline_s: float, on_wait: Callable[[int], None] | None = None
    ) -> list[Group]:
        """All groups of a training step, by index, once ``count`` were added or dropped; `dropped` has the latter.

        ``on_wait`` is called about twice a second with the number there so far. Raises `BufferTimeoutError` after
        ``deadline_s`` seconds, `ReleasedStepError` for a step below the frontier and `CodecError` for a damaged group.
        A step is handed out once; to get it again, `rewind`.
        """
        if step < self._next_step:
            raise ReleasedStepError(
                f"training step {step} was read already, the next one is {self._next_step}: rewind() goes back to "
                f"the frontier, {self.frontier()}"
            )
        self._next_step = step
        self._redis.set(self._keys.wanted, step)
        give_up = time.monotonic() + deadline_s
        while (there := self._count(step)) < count:
            if time.monotonic() > give_up:
                raise BufferTimeoutError(
                    f"{there} of {count} groups of training step {step} came within {deadline_s:.0f} s: "
                    "see the orchestrator's log and GET /v1/status"
                )
            if not self._fetch(give_up) and on_wait is not None:
                on_wait(self._count(step))
        groups = [decode_group(payload) for _, payload in sorted(self._payloads.pop(step, {}).items())]
        self._next_step = step + 1
        return groups

    def dropped(self, step: int) -> dict[int, str]:
        """Index → reason of the groups of a training step that were given up."""
        return dict(self._dropped.get(step, {}))

    def release(self, upto_step: int) -> int:
        """Delete every group of the steps before ``upto_step``, once a checkpoint covers them. Returns how many."""
        keys = self._keys
        released: int = self._release_script(
            keys=[keys.groups, keys.seen, keys.held_bytes, keys.frontier], args=[upto_step, CONSUMER_GROUP]
        )
        self._next_step = max(self._next_step, upto_step)
        for forgotten in (self._payloads, self._dropped):
            for step in [step for step in forgotten if step < upto_step]:
                del forgotten[step]
        return released

    def _count(self, step: int) -> int:
        return len(self._payloads.get(step, {})) + len(self._dropped.get(step, {}))

    def _fetch(self, give_up: float) -> bool:
        """Read what is new; False when nothing came for half a second."""
        wait = _FULL_WAIT_FIRST_S
        while True:
            try:
                reply = self._read_redis.xreadgroup(
                    CONSUMER_GROUP,
                    self._consumer,
                    {self._keys.groups: ">"},
                    count=_READ_COUNT,
                    block=_READ_BLOCK_MS,
                )
                break
            except ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
                self._read_from_start()
            except CONNECTION_ERRORS:
                if time.monotonic() > give_up:
                    raise
                time.sleep(wait)
                wait = min(2 * wait, _RECONNECT_WAIT_MOST_S)
                # The answer that was lost may have held entries, which Redis now takes for delivered.
                self._read_from_start()
        return self._keep(_entries(reply))

    def _keep(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> bool:
        for _, fields in entries:
            step, index = int(fields[b"step"]), int(fields[b"index"])
            if step < self._next_step:
                continue  # delivered before a rewind of the stream
            if b"dropped" in fields:
                self._dropped.setdefault(step, {})[index] = fields[b"dropped"].decode()
            else:
                self._payloads.setdefault(step, {})[index] = fields[b"group"]
        return bool(entries)

    def _read_from_start(self) -> None:
        """Make the consumer group where there is none, and let the next read begin at the oldest entry."""
        try:
            self._redis.xgroup_create(self._keys.groups, CONSUMER_GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
            # Redis hands an entry that another consumer left pending to the one that reads it from here.
            self._redis.xgroup_setid(self._keys.groups, CONSUMER_GROUP, id="0")


def _entries(
    reply: list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]],
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries in an XREADGROUP reply on one stream."""
    return reply[0][1] if reply else []
