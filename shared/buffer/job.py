"""What a job's services tell each other besides groups: the policy version being served, and the job's state.

A job that was submitted to a trainer service has a record in `shared.buffer.jobs`, and only the service changes its
state. The trainer that was started by hand, for a job without a record, tells the state itself.
"""

import asyncio
import time
from pathlib import Path

from shared.buffer.connection import check_eviction_policy, connect, connect_async
from shared.buffer.groups import BufferTimeoutError
from shared.buffer.keys import JOBS, JobKeys
from shared.schemas.job import JobState

_POLL_S = 0.05
_KEPT_ANNOUNCEMENTS = 64
_SET_STATE = (Path(__file__).parent / "set_state.lua").read_text()


class JobChannel:
    """Blocking; the trainer's end."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect(redis_url)
        self._keys = JobKeys(job)
        self._set_state = self._redis.register_script(_SET_STATE)

    def check_eviction_policy(self) -> None:
        """Raise `EvictionPolicyError` where Redis might throw the job's groups away."""
        check_eviction_policy(self._redis)

    def set_policy_version(self, version: int) -> None:
        """Say that every policy server now holds ``version``: the weights after so many training steps."""
        self._redis.set(self._keys.policy_version, version)

    def announce_weights(self, version: int, digest: str) -> None:
        """Say what the weights of ``version`` are, before any policy server is given them.

        What was announced for later versions no longer holds: the trainer went back to a checkpoint.
        """
        keep = range(version - _KEPT_ANNOUNCEMENTS, version)
        there = self._redis.hkeys(self._keys.weights)
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hset(self._keys.weights, str(version), digest)
            for field in there:
                if int(field) != version and int(field) not in keep:
                    pipeline.hdel(self._keys.weights, field)
            pipeline.execute()

    def policy_version(self) -> int | None:
        """The version last set; None before the first."""
        value = self._redis.get(self._keys.policy_version)
        return None if value is None else int(value)

    def set_state(self, state: JobState) -> None:
        """Move the job, unless a trainer service keeps it; the orchestrator ends by itself once the state is over."""
        self._set_state(keys=[JOBS, self._keys.state], args=[self._keys.job, state.value])

    def state(self) -> JobState | None:
        """The job's state; None before the first was set."""
        return _state(self._redis.get(self._keys.state))

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class AsyncJobChannel:
    """In asyncio; the orchestrator's end."""

    def __init__(self, redis_url: str, job: str) -> None:
        """Opens no connection yet."""
        self._redis = connect_async(redis_url)
        self._keys = JobKeys(job)
        self._set_state = self._redis.register_script(_SET_STATE)

    async def set_policy_version(self, version: int) -> None:
        """Say that every policy server now holds ``version``."""
        await self._redis.set(self._keys.policy_version, version)

    async def policy_version(self) -> int | None:
        """The version last set; None before the first."""
        value = await self._redis.get(self._keys.policy_version)
        return None if value is None else int(value)

    async def holds_weights(self, version: int, digest: str) -> bool:
        """Whether weights are this job's, as far as its trainer has announced any."""
        announced, some = await (
            self._redis.pipeline().hget(self._keys.weights, str(version)).exists(self._keys.weights).execute()
        )
        return not some or (announced is not None and announced.decode() == digest.lower())

    async def wait_policy_version(self, at_least: int, deadline_s: float) -> int:
        """Wait until the version is ``at_least``; raises `BufferTimeoutError` after ``deadline_s`` seconds."""
        give_up = time.monotonic() + deadline_s
        while True:
            version = await self.policy_version()
            if version is not None and version >= at_least:
                return version
            if time.monotonic() > give_up:
                raise BufferTimeoutError(
                    f"policy version {at_least} did not come within {deadline_s:.0f} s (now: {version}): "
                    "is the trainer running?"
                )
            await asyncio.sleep(_POLL_S)

    async def set_state(self, state: JobState) -> None:
        """Move the job, unless a trainer service keeps it."""
        await self._set_state(keys=[JOBS, self._keys.state], args=[self._keys.job, state.value])

    async def state(self) -> JobState | None:
        """The job's state; None before the first was set."""
        return _state(await self._redis.get(self._keys.state))

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _state(value: bytes | None) -> JobState | None:
    return None if value is None else JobState(value.decode())
