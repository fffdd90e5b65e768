"""Whatever job is active in Redis, one after the other, for as long as the service runs."""

import asyncio
import logging
from contextlib import suppress

from pydantic import ValidationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from services.orchestrator.http import ServerUnavailableError
from services.orchestrator.job import serve_job
from services.orchestrator.settings import OrchestratorSettings
from services.orchestrator.setup import ServerSets
from services.orchestrator.status import Progress
from shared.buffer import AsyncJobStore, IllegalTransitionError
from shared.schemas.job import JobState

logger = logging.getLogger(__name__)

REDIS_AWAY = (RedisConnectionError, RedisTimeoutError)
"""What a command raises that was retried for a minute. Wider than this (`OSError`) would hide a missing file."""

_POLL_S = 0.5
_PAUSE_S = 2.0


class Follower:
    """Serves the active job until it is over or another one is active, then the next."""

    def __init__(self, settings: OrchestratorSettings, sets: ServerSets, progress: Progress) -> None:
        """Opens no connection to Redis yet."""
        self._settings = settings
        self._sets = sets
        self._progress = progress
        self._store = AsyncJobStore(settings.redis_url)

    async def run(self) -> None:
        """Until cancelled. What is away for a while (Redis, the servers) is waited for."""
        try:
            while True:
                try:
                    await self._follow()
                except REDIS_AWAY as error:
                    logger.error("Redis is away: %s", error)
                    self._progress.wait(f"Redis is away: {error}")
                except ServerUnavailableError as error:
                    logger.error("the job has to wait: %s", error)
                    self._progress.wait(str(error))
                await asyncio.sleep(_PAUSE_S)
        finally:
            await self._store.close()

    async def _follow(self) -> None:
        while True:
            job = await self._store.active()
            if job is None:
                self._progress.idle()
                await asyncio.sleep(_POLL_S)
            else:
                await self._serve(job)

    async def _serve(self, job: str) -> None:
        """Work for a job while it is the active one. A job that cannot be served is failed, and the reason told."""
        about = {"job": job}
        logger.info("the job is taken up", extra=about)
        work = asyncio.create_task(self._work(job), name=f"job {job}")
        watch = asyncio.create_task(self._until_inactive(job), name=f"watch {job}")
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = await _stop(work, watch)
        if isinstance(ended, (ServerUnavailableError, *REDIS_AWAY)):
            raise ended
        if ended is not None:
            logger.error("the job cannot be served", exc_info=ended, extra=about)
            with suppress(IllegalTransitionError):  # it is over already, by somebody else's doing
                await self._store.transition(job, JobState.FAILED, _reason(ended))

    async def _work(self, job: str) -> None:
        recipe = await self._store.recipe(job)
        if recipe is None:
            raise LookupError(f"job {job} has no recipe in Redis: submit it through the trainer's API")
        # Its state is over only when somebody else ended it just now: then it will not be active for long either.
        await serve_job(job, recipe, self._settings, self._sets, self._progress, resume_grace_s=0.0)

    async def _until_inactive(self, job: str) -> None:
        while True:
            if await self._store.active() != job:
                return
            await asyncio.sleep(_POLL_S)


async def _stop(work: "asyncio.Task[None]", watch: "asyncio.Task[None]") -> Exception | None:
    """End both; what the work failed with, or else the watch."""
    for task in (work, watch):
        task.cancel()
    outcomes = await asyncio.gather(work, watch, return_exceptions=True)
    return next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"this release cannot read the job's recipe: {error}"
    return f"the orchestrator cannot serve the job: {type(error).__name__}: {error}"
