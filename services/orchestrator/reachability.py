"""Whether Redis and the servers can be reached now, for ``GET /readyz`` of a service that may have no job."""

import asyncio

from services.orchestrator.http import ReplicaSet, ServerProblemError, ServerUnavailableError
from services.orchestrator.setup import ServerSets
from shared.buffer import connect_async
from shared.buffer.connection import CONNECTION_ERRORS

_TIMEOUT_S = 2.0


class Reachability:
    """Asks everybody anew each time."""

    def __init__(self, redis_url: str, sets: ServerSets) -> None:
        """Opens no connection yet."""
        self._redis = connect_async(redis_url, retry_deadline_s=0)
        self._sets = sets

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def missing(self) -> list[str]:
        """What is not there, each with the reason; nothing when all is well. One replica of each server will do."""
        found = await asyncio.gather(
            self._redis_problem(),
            _servers_problem("env server", self._sets.environments),
            _servers_problem("policy server", self._sets.policy),
        )
        return [problem for problem in found if problem is not None]

    async def _redis_problem(self) -> str | None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._redis.ping()
        except CONNECTION_ERRORS as error:
            return f"Redis does not answer: {error or type(error).__name__}"
        return None


async def _servers_problem(what: str, replicas: ReplicaSet) -> str | None:
    there = replicas.replicas
    if not there:
        return f"no {what} has an address: {', '.join(replicas.urls)}"
    problems = []
    for asked in asyncio.as_completed([replicas.ask_only(one, "/readyz", _TIMEOUT_S) for one in there]):
        try:
            await asked
        except (ServerUnavailableError, ServerProblemError) as error:
            problems.append(str(error))
        else:
            return None
    return f"no {what} is ready: {'; '.join(problems)}"
