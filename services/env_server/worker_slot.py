"""One place for a worker process: starts it, talks to it, watches its deadline, and replaces it when it dies."""

import asyncio
import logging
import mmap
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from services.env_server.worker_process import WorkerArguments
from services.env_server.worker_protocol import (
    FRAME_HEADER,
    PROGRESS_BYTES,
    Answer,
    AskCatalogue,
    Call,
    Catalogue,
    DrawTask,
    Drop,
    Hello,
    OpenGroup,
    Outcomes,
    RunItems,
)

logger = logging.getLogger(__name__)

DeathReason = Literal["deadline", "crash", "stopped"]

RESTART_PAUSE_S = 1.0
"""Pause before another try when a replacement did not even start."""
STOP_DEADLINE_S = 2.0
"""How long a worker may take to leave by itself at shutdown."""


class WorkerLostError(Exception):
    """The worker died before it answered. ``culprit`` is the index of the item at work, None if the call waited."""

    def __init__(self, reason: DeathReason, culprit: int | None) -> None:
        super().__init__(f"worker lost: {reason}")
        self.reason = reason
        self.culprit = culprit


class WorkerStartError(Exception):
    """A worker could not start; the message is the environment's, or tells the exit status."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Deadlines, in seconds."""

    step_deadline_s: float
    open_deadline_s: float
    start_deadline_s: float


@dataclass(slots=True)
class _Process:
    """A running worker and the server's ends of what joins them."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    page: mmap.mmap
    progress: "memoryview[float]"
    reason: DeathReason = "crash"
    waiting: dict[int, asyncio.Future[Answer]] = field(default_factory=dict)


class WorkerSlot:
    """A slot lives as long as the server; the process in it may change, and ``generation`` counts them."""

    def __init__(
        self,
        number: int,
        environments: dict[str, str],
        variables: dict[str, str],
        limits: WorkerLimits,
        on_death: Callable[[DeathReason], None],
    ) -> None:
        """``environments`` is name → ``module:Class``; ``variables`` are the worker's environment variables."""
        self.number = number
        self.generation = 0
        self.sessions = 0
        """Sessions placed here, by the caller's count."""
        self._arguments = WorkerArguments(environments, limits.step_deadline_s, limits.open_deadline_s)
        self._variables = variables
        self._limits = limits
        self._on_death = on_death
        self._current: _Process | None = None
        self._calls = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Answer)

    @property
    def ready(self) -> bool:
        """A worker is running here and takes calls."""
        return self._current is not None

    @property
    def pid(self) -> int | None:
        """The worker's process id, None while there is none."""
        return self._current.process.pid if self._current is not None else None

    async def call(self, body: OpenGroup | RunItems | DrawTask) -> Outcomes:
        """The outcomes of a call, one for each item. Raises `WorkerLostError`."""
        answer = await self._ask(body)
        assert isinstance(answer, Outcomes)
        return answer

    async def catalogue(self) -> Catalogue:
        """All environments and their tasks. Raises `WorkerLostError`."""
        answer = await self._ask(AskCatalogue())
        assert isinstance(answer, Catalogue)
        return answer

    def drop(self, session_ids: list[str]) -> None:
        """Let the worker forget sessions; nothing to do when it is gone."""
        if self._current is not None and session_ids:
            self._write(self._current, Call(0, Drop(session_ids)))

    async def start(self) -> None:
        """Start a worker and wait until it is ready. Raises `WorkerStartError`."""
        started = await self._spawn()
        try:
            async with asyncio.timeout(self._limits.start_deadline_s):
                hello = await self._read(started)
        except TimeoutError:
            await self._end(started)
            raise WorkerStartError(f"worker {self.number} was not ready in {self._limits.start_deadline_s} s") from None
        error = hello.body.error if hello is not None and isinstance(hello.body, Hello) else "it ended while starting"
        if error is not None:
            await self._end(started)
            raise WorkerStartError(f"worker {self.number}: {error}")
        self.generation += 1
        self._current = started

    async def run(self) -> None:
        """Keep a worker here until cancelled. `start` has been called."""
        try:
            while True:
                if self._current is None:
                    await self._restart()
                else:
                    await self._serve(self._current)
        finally:
            if self._current is not None:
                await self._stop(self._current)

    async def _restart(self) -> None:
        try:
            await self.start()
            logger.info("worker %d: replaced, pid %s", self.number, self.pid)
        except WorkerStartError as error:
            logger.error("%s; another try in %.0f s", error, RESTART_PAUSE_S)
            await asyncio.sleep(RESTART_PAUSE_S)

    async def _serve(self, current: _Process) -> None:
        """Hand out answers until the worker dies."""
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch_deadline(current))
            while (answer := await self._read(current)) is not None:
                waiting = current.waiting.pop(answer.number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
            watch.cancel()
        self._current = None
        await self._end(current)
        at_work, item, _ = current.progress
        logger.warning("worker %d, pid %d, lost: %s", self.number, current.process.pid, current.reason)
        self._on_death(current.reason)
        for number, waiting in current.waiting.items():
            if not waiting.done():
                culprit = int(item) if number == int(at_work) else None
                waiting.set_exception(WorkerLostError(current.reason, culprit))

    async def _watch_deadline(self, current: _Process) -> None:
        pause = min(0.25, self._limits.step_deadline_s / 4)
        while True:
            await asyncio.sleep(pause)
            deadline = current.progress[2]
            if deadline and time.monotonic() > deadline and current.waiting:
                current.reason = "deadline"
                current.process.kill()
                return

    async def _ask(self, body: OpenGroup | RunItems | DrawTask | AskCatalogue) -> Outcomes | Catalogue:
        current = self._current
        if current is None:
            raise WorkerLostError("crash", None)
        self._calls += 1
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        current.waiting[self._calls] = waiting
        self._write(current, Call(self._calls, body))
        answer = (await waiting).body
        assert not isinstance(answer, Hello)
        return answer

    def _write(self, current: _Process, call: Call) -> None:
        """Send a call, but to a worker that has just died: whoever waits hears of the loss from `_serve`."""
        if current.writer.is_closing():
            return
        payload = self._encoder.encode(call)
        current.writer.write(FRAME_HEADER.pack(len(payload)) + payload)

    async def _read(self, current: _Process) -> Answer | None:
        """The next frame, or None when the worker is gone."""
        try:
            size = FRAME_HEADER.unpack(await current.reader.readexactly(FRAME_HEADER.size))[0]
            return self._decoder.decode(await current.reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _spawn(self) -> _Process:
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as file, theirs:
            file.truncate(PROGRESS_BYTES)
            page = mmap.mmap(file.fileno(), PROGRESS_BYTES)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "services.env_server.worker_process",
                str(theirs.fileno()),
                str(file.fileno()),
                msgspec.json.encode(self._arguments).decode(),
                env=self._variables,
                pass_fds=(theirs.fileno(), file.fileno()),
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 22)
        return _Process(process, reader, writer, page, memoryview(page).cast("d"))

    async def _end(self, current: _Process) -> None:
        """Make sure that a process is gone and its connection closed."""
        current.writer.close()
        if current.process.returncode is None:
            with suppress(ProcessLookupError):
                current.process.kill()
        await current.process.wait()

    async def _stop(self, current: _Process) -> None:
        """Let an idle worker leave by itself: it does when the connection closes."""
        self._current = None
        current.reason = "stopped"
        current.writer.close()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await current.process.wait()
        except TimeoutError:
            await self._end(current)
        for waiting in current.waiting.values():
            if not waiting.done():
                waiting.set_exception(WorkerLostError("stopped", None))
