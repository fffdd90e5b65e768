"""Connections to Redis that ride out its absence: every command is retried with backoff until a deadline."""

import asyncio
import math
from collections.abc import Iterable

import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, TimeoutError
from redis.retry import Retry

CONNECTION_ERRORS = (ConnectionError, TimeoutError, BusyLoadingError, ConnectionResetError, OSError)

RETRY_DEADLINE_S = 60.0
"""For about how long a command is retried while Redis is away."""

SOCKET_TIMEOUT_S = 30.0
"""Longer than any blocking read here."""

_BACKOFF_BASE_S = 0.05
_BACKOFF_CAP_S = 2.0


class EvictionPolicyError(RuntimeError):
    """The server may throw away keys when its memory is full."""


def connect(url: str, retry_deadline_s: float = RETRY_DEADLINE_S) -> redis.Redis:
    """A blocking client that answers with bytes. A deadline of 0 never retries."""
    return redis.Redis.from_url(
        url,
        retry=Retry(ExponentialBackoff(cap=_BACKOFF_CAP_S, base=_BACKOFF_BASE_S), _attempts(retry_deadline_s)),
        retry_on_error=list(CONNECTION_ERRORS),
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=5.0,
        health_check_interval=30,
        protocol=2,  # stream replies have one shape in it
    )


def connect_async(url: str, retry_deadline_s: float = RETRY_DEADLINE_S) -> redis.asyncio.Redis:
    """The same for asyncio."""
    client = redis.asyncio.Redis.from_url(
        url,
        retry=AsyncRetry(ExponentialBackoff(cap=_BACKOFF_CAP_S, base=_BACKOFF_BASE_S), _attempts(retry_deadline_s)),
        retry_on_error=list(CONNECTION_ERRORS),
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=5.0,
        health_check_interval=30,
        protocol=2,  # stream replies have one shape in it
    )
    pool = client.connection_pool
    pool.connection_class = type("Connection", (_HeedsCancellation, pool.connection_class), {})
    return client


class _HeedsCancellation(AbstractConnection):  # type: ignore[misc]  # redis-py gives it no type
    """Python 3.11's ``wait_for``, in which redis-py sends, loses a cancellation that comes as the sending ends.

    The task that was to end would go on for ever.
    """

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        await super().send_packed_command(command, check_health)
        if task is not None and task.cancelling() > before:
            await self.disconnect(nowait=True)  # nobody will read the reply
            raise asyncio.CancelledError


def check_eviction_policy(client: redis.Redis) -> None:
    """Raise `EvictionPolicyError` unless the server keeps what it was given when its memory is full."""
    policy = client.info("memory").get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        raise EvictionPolicyError(
            f"Redis' maxmemory-policy is {policy!r}: groups and sessions could vanish unseen. "
            "Set it: redis-cli CONFIG SET maxmemory-policy noeviction"
        )


def check_redis(url: str) -> None:
    """`check_eviction_policy` when a service starts. Redis may start after it: one that is not there yet passes."""
    client = connect(url, retry_deadline_s=0)
    try:
        check_eviction_policy(client)
    except redis.RedisError:  # the first command that is needed says it, after its retries
        return
    finally:
        client.close()


def _attempts(deadline_s: float) -> int:
    """How many retries fill the deadline: the waits double from the base up to the cap, then stay there."""
    if deadline_s <= 0:
        return 0
    doublings = math.ceil(math.log2(_BACKOFF_CAP_S / _BACKOFF_BASE_S))
    growing_s = _BACKOFF_BASE_S * (1 << doublings)
    return max(1, doublings + math.ceil((deadline_s - growing_s) / _BACKOFF_CAP_S))
