"""What a job says while it runs: its events, its episodes turn by turn, and its log."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import PlainTextResponse

from services.trainer.server.log_file import BLOCK_BYTES, read_from, tail_start, whole_lines
from services.trainer.server.service import TrainerService, trainer
from services.trainer.server.sse import HEARTBEAT, sse, sse_response
from shared.buffer import AsyncEventReader, TurnReader
from shared.schemas.job import Job

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["following"])
Service = Annotated[TrainerService, Depends(trainer)]
EventId = Annotated[str | None, Header(alias="last-event-id", pattern=r"^\d{1,20}(-\d{1,20})?$")]

LOG_EVENT = "log"
LOG_POLL_S = 0.5
MOST_LOG_BYTES = 4 * 1024 * 1024
_NO_CONTENT = 204


@router.get("/events")
async def events(
    job_id: str,
    service: Service,
    last_event_id: EventId = None,
    after: Annotated[str | None, Query(pattern=r"^\d{1,20}(-\d{1,20})?$", description="As Last-Event-ID.")] = None,
) -> Response:
    """Everything that happens in a job, as server-sent events, from the oldest that is kept or behind Last-Event-ID.

    Ends once the job is over and all is sent; then 204 says that there is nothing more to come, and an EventSource does
    not connect again.
    """
    job = await service.job(job_id)
    position = last_event_id or after or "0"
    if job.state.over:
        reader = AsyncEventReader(service.settings.redis_url, job.id)
        try:
            if not await reader.read(position):
                return Response(status_code=_NO_CONTENT)
        finally:
            await reader.close()
    return sse_response(_events(service, job.id, position))


@router.get("/turns")
async def turns(job_id: str, service: Service) -> Response:
    """The job's running episodes, turn by turn, as server-sent events: ``began``, ``turn`` and ``ended``.

    Begins with what is being played now, each episode from its first turn, and with what ended within the last minute;
    each record comes once. The job counts as watched while this is open: orchestrators tell turns only then. A job that
    waits for its turn is waited for; the stream ends when the job is over, and then 204 says that nothing is played.
    """
    job = await service.job(job_id)
    if job.state.over:
        return Response(status_code=_NO_CONTENT)
    return sse_response(_turns(service, job.id))


@router.get("/logs", response_class=PlainTextResponse)
async def logs(
    job_id: str,
    service: Service,
    tail: Annotated[int, Query(ge=0, le=1_000_000, description="Begin with so many of the last lines.")] = 200,
    offset: Annotated[int | None, Query(ge=0, description="Begin with this byte instead.")] = None,
    follow: Annotated[bool, Query(description="Send new lines as server-sent events until the job is over.")] = False,
    last_event_id: Annotated[int | None, Header(alias="last-event-id", ge=0)] = None,
) -> Response:
    """The log of the job's training processes, as text, with where it ended in ``X-Log-Offset``.

    With ``follow``, as events of kind ``log`` whose id is the byte behind their lines: the ``Last-Event-ID`` to go on.
    """
    job = await service.job(job_id)
    file = service.folder(job).log
    start = last_event_id if last_event_id is not None else offset
    if start is None:
        start = await asyncio.to_thread(tail_start, file, tail)
    if follow:
        return sse_response(_lines(service, job, start))
    text = await asyncio.to_thread(read_from, file, start, MOST_LOG_BYTES)
    return PlainTextResponse(text, headers={"x-log-offset": str(start + len(text))})


async def _events(service: TrainerService, job: str, position: str) -> AsyncIterator[bytes]:
    reader = AsyncEventReader(service.settings.redis_url, job)

    async def read(block_s: float) -> list[bytes]:
        nonlocal position
        batch = await reader.read(position, block_s)
        position = batch[-1].id if batch else position
        return [sse(event.id, event.kind, orjson.dumps(event.payload).decode()) for event in batch]

    try:
        async with aclosing(_until_over(service, job, read)) as messages:
            async for message in messages:
                yield message
    finally:
        await reader.close()


async def _turns(service: TrainerService, job: str) -> AsyncIterator[bytes]:
    reader = TurnReader(service.settings.redis_url, job)

    async def read(block_s: float) -> list[bytes]:
        batch = await reader.read(block_s)
        return [sse(one.id, one.record.kind, one.record.model_dump_json()) for one in batch]

    try:
        async with aclosing(_until_over(service, job, read)) as messages:
            async for message in messages:
                yield message
    finally:
        await reader.close()


async def _until_over(
    service: TrainerService, job: str, read: Callable[[float], Awaitable[list[bytes]]]
) -> AsyncGenerator[bytes, None]:
    """What ``read`` finds, waiting so many seconds, until the job is over and nothing is left; heartbeats between."""
    with service.metrics.streams.track_inprogress():
        while True:
            state = await service.store.state(job)
            over = state is None or state.over
            found = await read(0.0 if over else service.settings.heartbeat_s)
            for message in found:
                yield message
            if found:
                continue
            if over:
                return
            yield HEARTBEAT


async def _lines(service: TrainerService, job: Job, position: int) -> AsyncIterator[bytes]:
    file, quiet_s = service.folder(job).log, 0.0
    with service.metrics.streams.track_inprogress():
        while True:
            state = await service.store.state(job.id)
            # The supervisor has the job in hand until its processes are gone, also when it is over already.
            over = (state is None or state.over) and service.supervisor.job != job.id
            block = await asyncio.to_thread(read_from, file, position)
            lines = whole_lines(block, last=over and len(block) < BLOCK_BYTES)
            if lines:
                position += len(lines)
                yield sse(str(position), LOG_EVENT, lines.decode(errors="replace"))
                quiet_s = 0.0
            elif over:
                return
            else:
                await asyncio.sleep(LOG_POLL_S)
                quiet_s += LOG_POLL_S
                if quiet_s >= service.settings.heartbeat_s:
                    yield HEARTBEAT
                    quiet_s = 0.0
