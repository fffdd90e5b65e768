"""Sessions: opened as groups, stepped idempotently, journaled, rebuilt by replay, and forgotten when idle.

A session's truth is its journal. The episode in a worker is a shadow that may be lost or fall behind another replica;
whenever in doubt, the journal is read and the episode is rebuilt. `StepRun` (``step_run.py``) is the stepping itself.
"""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import msgspec

from services.env_server import faults
from services.env_server.catalogue import ServedCatalogue
from services.env_server.journal import Journal, JournalUnavailableError, Record
from services.env_server.metrics import EnvServerMetrics
from services.env_server.opening_key import KeyedOpenings, keyed_session_ids
from services.env_server.worker_pool import NoWorkerError, WorkerPool
from services.env_server.worker_protocol import Birth, DrawTask, Encoding, Item, OpenGroup, Outcome, RunItems
from services.env_server.worker_slot import WorkerLostError, WorkerSlot
from shared.problems import ProblemError
from shared.schemas.environment import SessionRequest

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""What `secrets.token_urlsafe` gives for 128 random bits."""

ATTEMPTS = 4
"""How often one request is tried when workers die under it or other replicas step the same session."""


@dataclass(slots=True)
class Session:
    """What this server knows of a session. All but the id and the lock is a cache of the journal and the worker."""

    session_id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    birth: Birth | None = None
    """None until the journal has been read."""
    next_index: int = 0
    last: bytes = b""
    """The latest observation or step result, encoded; empty when unknown."""
    last_encoding: Encoding = "json"
    terminated: bool = False
    truncated: bool = False
    slot: WorkerSlot | None = None
    generation: int = -1
    """The slot's generation in which the episode is live, or -1."""
    touched: float = 0.0
    """When it was last used. Seconds of the monotonic clock."""

    @property
    def live(self) -> bool:
        """Its episode is in a running worker, at ``next_index``."""
        return self.slot is not None and self.generation == self.slot.generation and self.slot.ready

    @property
    def over(self) -> bool:
        """The episode has ended, as far as is known here."""
        return self.terminated or self.truncated


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of a `SessionTable`; the settings of the same names explain them."""

    max_sessions: int
    max_pending_items: int
    session_ttl_s: float
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class CurrentState:
    """What ``GET /v1/sessions/{id}`` tells beside the observation."""

    fragment: bytes
    encoding: Encoding
    history_length: int
    expires_in_s: float
    terminated: bool
    truncated: bool


class SessionTable:
    """All sessions of this server."""

    def __init__(
        self,
        pool: WorkerPool,
        journal: Journal,
        catalogue: ServedCatalogue,
        limits: SessionLimits,
        metrics: EnvServerMetrics,
    ) -> None:
        """The pool is running; ``catalogue`` is what its workers serve."""
        self.pool = pool
        self.journal = journal
        self.catalogue = catalogue
        self.limits = limits
        self.metrics = metrics
        self._sessions: dict[str, Session] = {}
        self._keyed = KeyedOpenings()
        self._reserved = 0
        self._pending = 0
        metrics.sessions.set_function(lambda: len(self._sessions))
        metrics.pending.set_function(lambda: self._pending)
        metrics.workers_ready.set_function(lambda: pool.ready)

    async def open(self, request: SessionRequest, encoding: Encoding, key: str | None = None) -> list[bytes]:
        """Open a group; its first observations, encoded. Raises a `ProblemError`.

        With a ``key`` a second time, the sessions that the first time opened, as they are now.
        """
        drawing = self.catalogue.to_draw(request)
        with self.pending(1), self.metrics.open_seconds.time():
            if drawing is not None:
                task_id = (await self._in_any_worker(drawing, drawing.split, "Drawing a task"))[2][0].fragment.decode()
                request = request.model_copy(update={"task_id": task_id, "split": None, "seed": None})
            birth = self.catalogue.birth(request)
            if key is None:
                session_ids = [secrets.token_urlsafe(16) for _ in range(request.count)]
                return await self._open(session_ids, birth, encoding)
            session_ids = keyed_session_ids(key, birth, request.count)
            async with self._keyed.alone(session_ids[0]):
                return await self._opened(session_ids, encoding) or await self._open(session_ids, birth, encoding)

    async def state(self, session_id: str) -> CurrentState:
        """The current observation. Raises ``unknown-session``."""
        async with self.locked_alone(session_id) as session:
            record = (await self.load([session]))[0]
            if record is None:
                raise faults.unknown_session(session_id)
            if not session.last:
                await self.rebuild(session, record)
            return CurrentState(
                session.last,
                session.last_encoding,
                session.next_index,
                self.limits.session_ttl_s,
                session.terminated,
                session.truncated,
            )

    async def delete(self, session_id: str) -> None:
        """Forget a session everywhere. Raises ``unknown-session``."""
        async with self.locked_alone(session_id) as session:
            try:
                deleted = (await self.journal.delete([session_id]))[0]
            except JournalUnavailableError as error:
                raise faults.journal_unavailable(str(error), self.limits.retry_after_s) from error
            self.forget(session)
            if not deleted:
                raise faults.unknown_session(session_id)
            self.metrics.ended.labels("deleted").inc()

    async def reap(self) -> int:
        """Forget sessions that nobody touched for their time to live; how many."""
        oldest = time.monotonic() - self.limits.session_ttl_s
        idle = [s for s in self._sessions.values() if s.touched < oldest and not s.lock.locked()]
        for session in idle:
            self.forget(session)
        await self.journal.expire([session.session_id for session in idle])
        self.metrics.ended.labels("expired").inc(len(idle))
        return len(idle)

    @asynccontextmanager
    async def locked(self, session_ids: Iterable[str]) -> AsyncIterator[dict[str, Session | ProblemError]]:
        """Hold sessions alone. One that is not here is held unloaded; one that cannot be held gives its problem."""
        held: dict[str, Session | ProblemError] = {}
        try:
            for session_id in sorted(session_ids):  # one order for all, so that no two wait for each other
                try:
                    held[session_id] = await self._lock(session_id)
                except ProblemError as problem:
                    held[session_id] = problem
            yield held
        finally:
            now = time.monotonic()
            for session in held.values():
                if isinstance(session, Session):
                    session.touched = now
                    session.lock.release()
                    if session.birth is None and self._sessions.get(session.session_id) is session:
                        del self._sessions[session.session_id]

    @asynccontextmanager
    async def locked_alone(self, session_id: str) -> AsyncIterator[Session]:
        """Hold one session. Raises the problem that keeps it from being held."""
        async with self.locked([session_id]) as held:
            session = held[session_id]
            if isinstance(session, ProblemError):
                raise session
            yield session

    @contextmanager
    def pending(self, items: int) -> Iterator[None]:
        """Count work in hand. Raises ``overloaded``."""
        if self._pending + items > self.limits.max_pending_items:
            raise faults.overloaded(self.limits.max_pending_items, self.limits.retry_after_s)
        self._pending += items
        try:
            yield
        finally:
            self._pending -= items

    async def load(self, sessions: Sequence[Session]) -> list[Record | None]:
        """Read the journal and bring what is known of the sessions in line with it. Raises ``journal-unavailable``."""
        try:
            records = await self.journal.load([session.session_id for session in sessions])
        except JournalUnavailableError as error:
            raise faults.journal_unavailable(str(error), self.limits.retry_after_s) from error
        for session, record in zip(sessions, records, strict=True):
            if record is None:
                self.forget(session)
                session.birth = None
            elif session.birth is None or session.next_index != len(record.actions):
                session.birth = record.birth
                session.next_index = len(record.actions)
                session.last, session.generation = b"", -1
                session.terminated = session.truncated = False  # unknown; the worker tells after the replay
        return records

    async def rebuild(self, session: Session, record: Record) -> None:
        """Bring the session's episode to life by replay. Raises a `ProblemError`."""
        for _ in range(ATTEMPTS):
            slot = await self.place(session)
            generation = slot.generation
            item = Item(session.session_id, len(record.actions), None, record.birth, record.actions)
            try:
                outcome = (await slot.call(RunItems([item], session.last_encoding))).outcomes[0]
            except WorkerLostError as error:
                if error.culprit is not None and error.reason == "deadline":
                    raise faults.deadline(f"Rebuilding session {session.session_id}") from error
                continue
            if outcome.fault is not None:
                raise faults.from_fault(outcome.fault)
            self.commit(session, generation, outcome, session.last_encoding)
            self.metrics.rebuilt.inc()
            return
        raise faults.worker_unavailable(self.limits.retry_after_s)

    async def place(self, session: Session) -> WorkerSlot:
        """The slot in which to run a session: its own where that is ready. Raises a `ProblemError`."""
        birth = session.birth
        if birth is not None and not session.live:
            description = self.catalogue.description(birth.environment)
            if description.data_digest != birth.data_digest:
                raise faults.data_changed(session.session_id, birth.environment)
        try:
            slot = await self.pool.place(birth.task_id if birth is not None else "", session.slot)
        except NoWorkerError as error:
            raise faults.worker_unavailable(self.limits.retry_after_s) from error
        if slot is not session.slot:
            if session.slot is not None:
                session.slot.sessions -= 1
            session.slot = slot
            slot.sessions += 1
        return slot

    def commit(self, session: Session, generation: int, outcome: Outcome, encoding: Encoding) -> None:
        """The episode in the session's slot, of that generation, is at ``next_index``; this is its latest result."""
        session.last, session.last_encoding = outcome.fragment, encoding
        session.terminated, session.truncated = outcome.terminated, outcome.truncated
        session.generation = generation

    def forget(self, session: Session) -> None:
        """Let go of a session here; the journal is not touched."""
        if self._sessions.get(session.session_id) is session:
            del self._sessions[session.session_id]
        if session.slot is not None:
            session.slot.drop([session.session_id])
            session.slot.sessions -= 1
            session.slot = None
        session.birth, session.generation = None, -1

    async def _open(self, session_ids: list[str], birth: Birth, encoding: Encoding) -> list[bytes]:
        with self._room(len(session_ids)):
            what = f"Opening {birth.environment} {birth.task_id!r}"
            opening = OpenGroup(session_ids, birth, encoding)
            slot, generation, outcomes = await self._in_any_worker(opening, birth.task_id, what)
            try:
                new = await self.journal.create(session_ids, birth)
            except JournalUnavailableError as error:
                slot.drop(session_ids)
                raise faults.journal_unavailable(str(error), self.limits.retry_after_s) from error
            if not all(new):  # another replica was asked for the same, and was quicker
                slot.drop(session_ids)
                return await self._opened(session_ids, encoding)
            for session_id, outcome in zip(session_ids, outcomes, strict=True):
                session = Session(session_id, birth=birth, slot=slot, generation=generation)
                session.last, session.last_encoding = outcome.fragment, encoding
                session.touched = time.monotonic()
                self._sessions[session_id] = session
            slot.sessions += len(session_ids)
        self.metrics.opened.labels(birth.environment).inc(len(session_ids))
        return [outcome.fragment for outcome in outcomes]

    async def _opened(self, session_ids: list[str], encoding: Encoding) -> list[bytes]:
        """The current observations of sessions that were opened before; empty where none is in the journal."""
        try:
            records = await self.journal.load(session_ids)
        except JournalUnavailableError as error:
            raise faults.journal_unavailable(str(error), self.limits.retry_after_s) from error
        if not any(records):
            async with self.locked([session_id for session_id in session_ids if session_id in self._sessions]) as held:
                for expired in held.values():
                    if isinstance(expired, Session):
                        self.forget(expired)
            return []
        states = [await self.state(session_id) for session_id in session_ids]
        return [observation(state.fragment, state.encoding, encoding) for state in states]

    async def _lock(self, session_id: str) -> Session:
        if SESSION_ID.fullmatch(session_id) is None:
            raise faults.unknown_session(session_id)
        while True:
            session = self._sessions.get(session_id)
            if session is None:
                with self._room(1):
                    session = self._sessions[session_id] = Session(session_id)
            await session.lock.acquire()
            if self._sessions.get(session_id) is session:
                return session
            session.lock.release()  # it was forgotten while this waited; look again

    @contextmanager
    def _room(self, count: int) -> Iterator[None]:
        if len(self._sessions) + self._reserved + count > self.limits.max_sessions:
            raise faults.at_capacity(self.limits.max_sessions, self.limits.retry_after_s)
        self._reserved += count
        try:
            yield
        finally:
            self._reserved -= count

    async def _in_any_worker(
        self, body: OpenGroup | DrawTask, task_id: str, what: str
    ) -> tuple[WorkerSlot, int, list[Outcome]]:
        """Do something that no session's worker has to do, preferably where the task is usually placed."""
        for _ in range(2):
            try:
                slot = await self.pool.place(task_id)
                generation = slot.generation
                outcomes = (await slot.call(body)).outcomes
            except NoWorkerError as error:
                raise faults.worker_unavailable(self.limits.retry_after_s) from error
            except WorkerLostError as error:
                if error.culprit is not None and error.reason == "deadline":
                    raise faults.deadline(what) from error
                continue
            if outcomes[0].fault is not None:
                raise faults.from_fault(outcomes[0].fault)
            return slot, generation, outcomes
        raise faults.crashed(what)


def observation(fragment: bytes, given: Encoding, wanted: Encoding) -> bytes:
    """The observation in a fragment, which may be of a step's result."""
    fields = msgspec.json.decode(fragment) if given == "json" else msgspec.msgpack.decode(fragment)
    for name in ("reward", "terminated", "truncated"):
        fields.pop(name, None)
    return msgspec.json.encode(fields) if wanted == "json" else msgspec.msgpack.encode(fields)


def transcode(fragment: bytes, given: Encoding, wanted: Encoding) -> bytes:
    """A fragment in the wanted encoding."""
    if given == wanted:
        return fragment
    if wanted == "msgpack":
        return msgspec.msgpack.encode(msgspec.json.decode(fragment))
    return msgspec.json.encode(msgspec.msgpack.decode(fragment))


def problem_fragment(problem: ProblemError, encoding: Encoding) -> bytes:
    """A problem document as an item of a batch."""
    document = problem.document().model_dump(exclude_none=True)
    return msgspec.json.encode(document) if encoding == "json" else msgspec.msgpack.encode(document)
