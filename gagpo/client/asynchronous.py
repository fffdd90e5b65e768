"""The job client for asyncio."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from pydantic import JsonValue

from gagpo.client import calls
from gagpo.client.calls import Answer, Call, When
from gagpo.client.download import Archive, Progress, download_archive, ignore_progress
from gagpo.client.errors import unreachable
from gagpo.client.following import (
    READ_TIMEOUT_S,
    TIMEOUT_S,
    EventStream,
    Item,
    LogStream,
    Patience,
    Reconnecting,
    Stream,
    TurnStream,
    events_in,
)
from gagpo.client.server import find_server
from shared.schemas.credit import CellDetail, GroupCredit, StepCredit
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import Checkpoint, Job, JobDetail, JobEvent
from shared.schemas.turns import LiveRecord


class AsyncClient:
    """Runs training jobs on a remote trainer, as `Client` does, for asyncio."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience: Patience | None = None,
    ) -> None:
        """Opens no connection yet. The arguments are those of `Client`."""
        self.server = find_server(server, token)
        self._patience = patience or Patience()
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(base_url=self.server.url, headers=self.server.headers, timeout=timeout_s)
        self._stream_timeout = httpx.Timeout(timeout_s, read=READ_TIMEOUT_S)

    async def __aenter__(self) -> Self:
        """The connections are closed at the end of the ``async with`` block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def submit(self, recipe: dict[str, JsonValue], job: str | None = None) -> Job:
        """As `Client.submit`."""
        return await self._ask(calls.submit(recipe, job))

    async def list(self) -> Sequence[Job]:
        """As `Client.list`."""
        return (await self._ask(calls.listing())).jobs

    async def get(self, job: str) -> JobDetail:
        """As `Client.get`."""
        return await self._ask(calls.detail(job))

    async def cancel(self, job: str) -> Job:
        """As `Client.cancel`."""
        return await self._ask(calls.cancel(job))

    async def resume(self, job: str) -> Job:
        """As `Client.resume`."""
        return await self._ask(calls.resume(job))

    async def delete(self, job: str) -> None:
        """As `Client.delete`."""
        await self._ask(calls.delete(job))

    async def checkpoints(self, job: str) -> Sequence[Checkpoint]:
        """As `Client.checkpoints`."""
        return (await self._ask(calls.checkpoints(job))).checkpoints

    async def evaluation(self, job: str, when: When) -> EvaluationReport:
        """As `Client.evaluation`."""
        return await self._ask(calls.evaluation(job, when))

    async def credit_steps(self, job: str) -> Sequence[int]:
        """As `Client.credit_steps`."""
        return (await self._ask(calls.credit_steps(job))).steps

    async def credit(self, job: str, step: int) -> StepCredit:
        """As `Client.credit`."""
        return await self._ask(calls.credit(job, step))

    async def credit_group(self, job: str, step: int, group: int) -> GroupCredit:
        """As `Client.credit_group`."""
        return await self._ask(calls.credit_group(job, step, group))

    async def credit_cell(self, job: str, step: int, group: int, episode: int, turn: int) -> CellDetail:
        """As `Client.credit_cell`."""
        return await self._ask(calls.credit_cell(job, step, group, episode, turn))

    def watch(self, job: str, after: str | None = None) -> AsyncIterator[JobEvent]:
        """As `Client.watch`."""
        return self._follow(job, EventStream(job, after))

    def follow_turns(self, job: str) -> AsyncIterator[LiveRecord]:
        """As `Client.follow_turns`."""
        return self._follow(job, TurnStream(job))

    async def logs(self, job: str, tail: int = 200) -> str:
        """As `Client.logs`."""
        return await self._ask(calls.logs(job, tail))

    async def follow_logs(self, job: str, tail: int = 200) -> AsyncIterator[str]:
        """As `Client.follow_logs`."""
        async for lines in self._follow(job, LogStream(job, tail)):
            for line in lines:
                yield line

    async def download(
        self,
        job: str,
        into: Path | None = None,
        version: int | None = None,
        trainer_state: bool = True,
        progress: Progress = ignore_progress,
    ) -> Path:
        """As `Client.download`, in a thread of its own; ``progress`` is called in the event loop."""
        chosen = calls.choose(job, await self.checkpoints(job), version)
        folder = into or calls.checkpoint_folder(job, chosen.version)
        archive = Archive(
            calls.archive_path(job, chosen.version, trainer_state), chosen.bytes if trainer_state else None, folder
        )
        loop, abandoned = asyncio.get_running_loop(), threading.Event()

        def report(received: int, total: int | None) -> None:
            loop.call_soon_threadsafe(progress, received, total)

        def fetch() -> None:
            line = Reconnecting(self.server.url, self._patience)
            with httpx.Client(base_url=self.server.url, headers=self.server.headers, timeout=self._timeout_s) as http:
                download_archive(http, archive, line, report, abandoned)

        try:
            await asyncio.to_thread(fetch)
        except asyncio.CancelledError:
            abandoned.set()
            raise
        return folder

    async def _follow(self, job: str, stream: Stream[Item]) -> AsyncIterator[Item]:
        """What a stream says until its job is over, over as many connections as it takes."""
        over = calls.detail(job)
        line = Reconnecting(self.server.url, self._patience)
        while True:
            try:
                async with self._http.stream(
                    "GET", stream.path, headers=stream.headers, timeout=self._stream_timeout
                ) as response:
                    if not response.is_success:
                        await response.aread()
                    if line.answered(response):
                        async for sse in events_in(response).aiter_sse():
                            if (item := stream.take(sse)) is not None:
                                line.progress()
                                yield item
                response = await self._http.send(over.request(self._http))
                if not line.answered(response):
                    wait_s = line.lost()
                elif over.read(response).state.over:
                    return
                else:
                    wait_s = line.ended()
            except httpx.TransportError as error:
                wait_s = line.lost(error)
            await asyncio.sleep(wait_s)

    async def _ask(self, call: Call[Answer]) -> Answer:
        try:
            return await self._exchange(call)
        except httpx.TransportError as error:
            raise unreachable(self.server.url, error) from error

    async def _exchange(self, call: Call[Answer]) -> Answer:
        return call.read(await self._http.send(call.request(self._http)))
