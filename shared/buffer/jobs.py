"""The jobs of a trainer service in Redis: their queue, states and recipes, shared by all services (DESIGN §8).

Every change is one script in Redis, so that two who change a job at the same moment can't both succeed where the table
of legal changes lets only one.
"""

from redis.asyncio import Redis as AsyncRedis

from shared.buffer.connection import connect, connect_async
from shared.buffer.job_records import (
    ADD,
    CHANGE,
    REMOVE,
    add_call,
    added,
    assemble,
    change_call,
    changed,
    newest_first,
    remove_call,
    removed,
    state_of,
    status_keys,
    whose_turn,
)
from shared.buffer.keys import JOBS, JOBS_ACTIVE, JOBS_ORDER, JobKeys
from shared.recipe import Recipe
from shared.schemas.job import Job, JobState


class JobStore:
    """Blocking."""

    def __init__(self, redis_url: str) -> None:
        """Opens no connection yet."""
        self._redis = connect(redis_url)
        self._add = self._redis.register_script(ADD)
        self._change = self._redis.register_script(CHANGE)
        self._remove = self._redis.register_script(REMOVE)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def add(self, job: str, recipe: Recipe) -> bool:
        """Put a job into the queue; False when it is there with the same recipe. Raises `JobConflictError`."""
        keys, arguments = add_call(job, recipe)
        return added(job, self._add(keys=keys, args=arguments))

    def transition(self, job: str, to: JobState, reason: str | None = None) -> None:
        """Change a job's state. Raises `UnknownJobError`, and `IllegalTransitionError` when that may not be."""
        keys, arguments = change_call(job, to, reason)
        changed(job, to, self._change(keys=keys, args=arguments))

    def remove(self, job: str) -> None:
        """Forget a job that is over: its record, groups and events. Its files stay.

        Raises `UnknownJobError`, and `JobNotOverError`.
        """
        keys, arguments = remove_call(job)
        removed(job, self._remove(keys=keys, args=arguments))

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        return newest_first(self._jobs())

    def get(self, job: str) -> Job | None:
        """One job; None where there is no such job."""
        return next((one for one in self._jobs() if one.id == job), None)

    def state(self, job: str) -> JobState | None:
        """A job's state; None where there is no such job."""
        return state_of(self._redis.get(JobKeys(job).state))

    def recipe(self, job: str) -> Recipe | None:
        """A job's recipe with every default spelled out; None where there is no such job."""
        return _recipe(self._redis.get(JobKeys(job).recipe))

    def turn(self) -> str | None:
        """The job to work on next: the one that runs or was interrupted, else the head of the queue."""
        return whose_turn(self._jobs())

    def active(self) -> str | None:
        """The job that the services work for: from its start until it is over."""
        return _text(self._redis.get(JOBS_ACTIVE))

    def _jobs(self) -> list[Job]:
        with self._redis.pipeline(transaction=True) as pipeline:
            order, records = pipeline.lrange(JOBS_ORDER, 0, -1).hgetall(JOBS).execute()
        return assemble(order, records, self._redis.mget(status_keys(order)) if order else [])


class AsyncJobStore:
    """The same in asyncio."""

    def __init__(self, redis_url: str) -> None:
        """Opens no connection yet."""
        self._redis: AsyncRedis = connect_async(redis_url)
        self._add = self._redis.register_script(ADD)
        self._change = self._redis.register_script(CHANGE)
        self._remove = self._redis.register_script(REMOVE)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def ping(self) -> None:
        """Raise what the connection raises when Redis does not answer."""
        await self._redis.ping()

    async def add(self, job: str, recipe: Recipe) -> bool:
        """Put a job into the queue; False when it is there with the same recipe. Raises `JobConflictError`."""
        keys, arguments = add_call(job, recipe)
        return added(job, await self._add(keys=keys, args=arguments))

    async def transition(self, job: str, to: JobState, reason: str | None = None) -> None:
        """Change a job's state. Raises `UnknownJobError`, and `IllegalTransitionError` when that may not be."""
        keys, arguments = change_call(job, to, reason)
        changed(job, to, await self._change(keys=keys, args=arguments))

    async def remove(self, job: str) -> None:
        """Forget a job that is over: its record, groups and events. Its files stay.

        Raises `UnknownJobError`, and `JobNotOverError`.
        """
        keys, arguments = remove_call(job)
        removed(job, await self._remove(keys=keys, args=arguments))

    async def all(self) -> list[Job]:
        """All jobs, the newest first."""
        return newest_first(await self._jobs())

    async def get(self, job: str) -> Job | None:
        """One job; None where there is no such job."""
        return next((one for one in await self._jobs() if one.id == job), None)

    async def state(self, job: str) -> JobState | None:
        """A job's state; None where there is no such job."""
        return state_of(await self._redis.get(JobKeys(job).state))

    async def recipe(self, job: str) -> Recipe | None:
        """A job's recipe with every default spelled out; None where there is no such job."""
        return _recipe(await self._redis.get(JobKeys(job).recipe))

    async def turn(self) -> str | None:
        """The job to work on next: the one that runs or was interrupted, else the head of the queue."""
        return whose_turn(await self._jobs())

    async def active(self) -> str | None:
        """The job that the services work for: from its start until it is over."""
        return _text(await self._redis.get(JOBS_ACTIVE))

    async def _jobs(self) -> list[Job]:
        async with self._redis.pipeline(transaction=True) as pipeline:
            order, records = await pipeline.lrange(JOBS_ORDER, 0, -1).hgetall(JOBS).execute()
        return assemble(order, records, await self._redis.mget(status_keys(order)) if order else [])


def _recipe(stored: bytes | None) -> Recipe | None:
    return None if stored is None else Recipe.model_validate_json(stored)


def _text(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode()
