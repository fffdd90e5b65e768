"""What is known of replicas, each by asking it, and no longer than it can be reached without a break."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import ValidationError

from services.orchestrator.http import ServerProblemError, ServerUnavailableError
from services.orchestrator.replicas import Replica

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_TIMEOUT_S = 5.0
"""The longest that one look may take."""

_AGAIN_S = 0.1
_AGAIN_AFTER_FAILURE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Fact(Generic[T]):
    value: T
    failures: int
    """The replica's count of failures when this was asked: one that failed since may be another by now."""


class Knowledge(Generic[T]):
    """One fact about each replica. Looking never keeps a request waiting: it goes on beside them."""

    def __init__(self, look: Callable[[Replica], Awaitable[T]]) -> None:
        """``look`` finds out; it may raise `ServerProblemError` or `ServerUnavailableError`, and is asked again."""
        self._look = look
        self._facts: dict[Replica, _Fact[T]] = {}
        self._looking: dict[Replica, asyncio.Task[None]] = {}
        self._again_at: dict[Replica, float] = {}
        self._defect: BaseException | None = None

    def of(self, replica: Replica) -> T | None:
        """What is known; None for nothing. Raises a defect of ``look``."""
        if self._defect is not None:
            raise self._defect
        fact = self._facts.get(replica)
        return None if fact is None or fact.failures != replica.failures else fact.value

    def doubt(self, replica: Replica) -> None:
        """What is known, or not, does not serve: look again soon."""
        if replica not in self._looking and time.monotonic() >= self._again_at.get(replica, 0.0):
            self._looking[replica] = asyncio.create_task(self.look(replica), name=f"look at {replica.url}")
            self._looking[replica].add_done_callback(lambda task: self._looked(replica, task))

    def forget(self, replica: Replica) -> None:
        """What is known is no longer true."""
        self._facts.pop(replica, None)

    async def look(self, replica: Replica) -> None:
        """Find out now. A replica that does not answer stays unknown."""
        pause, failures = _AGAIN_AFTER_FAILURE_S, replica.failures
        try:
            self._facts[replica] = _Fact(await self._look(replica), failures)
            pause = _AGAIN_S
        except ServerUnavailableError as error:
            logger.debug("%s", error, extra={"url": replica.url})
        except (ServerProblemError, ValidationError) as error:
            logger.warning("the replica cannot be used: %s", error, extra={"url": replica.url})
        finally:
            self._again_at[replica] = time.monotonic() + pause

    async def close(self) -> None:
        """Stop looking."""
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    def _looked(self, replica: Replica, task: "asyncio.Task[None]") -> None:
        self._looking.pop(replica, None)
        if not task.cancelled() and task.exception() is not None:
            self._defect = task.exception()
