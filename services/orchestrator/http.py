"""Requests to replicas of a server, tried again elsewhere or later until one takes them.

aiohttp, because a request costs its client a thirtieth of the CPU time that httpx takes at 64 at once, and this process
shares its cores with the servers.
"""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from pydantic import ValidationError

from shared.problems import PROBLEM_JSON
from shared.schemas.environment import Problem
from shared.service import Scope, authorization

_BACKOFF_FIRST_S = 0.05
_BACKOFF_MOST_S = 5.0
TRY_AGAIN = frozenset({429, 502, 503})
"""HTTP statuses that say: not now."""

_JSON = {"content-type": "application/json"}
_NO_HEADERS: Mapping[str, str] = {}


class ServerUnavailableError(Exception):
    """No replica took the request within the deadline."""


class ServerProblemError(Exception):
    """A server refused the request; trying again would not help."""

    def __init__(self, message: str, problem: Problem | None) -> None:
        """``problem`` is None where the server sent something else than a problem document."""
        super().__init__(message)
        self.problem = problem

    @property
    def kind(self) -> str:
        """The last part of the problem's type, such as ``unknown-session``; empty without a problem document."""
        return "" if self.problem is None else self.problem.type.rsplit("/", 1)[-1]


@dataclass(slots=True)
class Replica:
    """One server of several alike."""

    url: str
    in_flight: int = 0


class ReplicaSet:
    """Servers that can stand in for each other."""

    def __init__(self, urls: Sequence[str], timeout_s: float, deadline_s: float, scope: Scope | None = None) -> None:
        """``timeout_s`` bounds one try, ``deadline_s`` all tries of a request. Open it as a context manager.

        ``scope`` is that of the token to show, where there is one.
        """
        self.replicas = [Replica(url.rstrip("/")) for url in urls]
        self._timeout_s = timeout_s
        self.deadline_s = deadline_s
        self._authorization = {} if scope is None else authorization(scope)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Make the connection pool."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=10.0),
            headers={"accept": "application/json", **self._authorization},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def least_busy(self) -> Replica:
        """The replica with the fewest requests in flight."""
        return min(self.replicas, key=lambda replica: replica.in_flight)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        first: Replica | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        """The body of a successful answer. ``first`` is the replica to try first, the least busy by default.

        A request that is not taken (no connection, 429, 502, 503) is tried again on the next replica; once all were
        tried, after a pause that grows, or that the server names. Raises `ServerUnavailableError` after the deadline
        and `ServerProblemError` for every other refusal.
        """
        give_up = time.monotonic() + self.deadline_s
        replica = first or self.least_busy()
        attempts = 0
        while True:
            outcome = await self._try(replica, method, path, body, headers)
            if isinstance(outcome, bytes):
                return outcome
            attempts += 1
            replica = self.replicas[(self.replicas.index(replica) + 1) % len(self.replicas)]
            if attempts % len(self.replicas):
                continue
            growing = min(_BACKOFF_FIRST_S * 2.0 ** (attempts // len(self.replicas)), _BACKOFF_MOST_S)
            pause = outcome.retry_after_s or growing * random.uniform(0.5, 1.0)  # apart, so that not all come at once
            if time.monotonic() + pause > give_up:
                raise ServerUnavailableError(
                    f"{method} {path}: not taken by any of {[one.url for one in self.replicas]} "
                    f"in {self.deadline_s:.0f} s; last: {outcome.reason}"
                )
            await asyncio.sleep(pause)

    async def _try(
        self, replica: Replica, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> "bytes | _Refusal":
        assert self._session is not None, "the replica set was not opened"
        replica.in_flight += 1
        sent = {**_JSON, **headers} if headers else _JSON
        try:
            async with self._session.request(method, replica.url + path, data=body, headers=sent) as answer:
                content = await answer.read()
                if answer.status < 400:
                    return content
                if answer.status in TRY_AGAIN:
                    return _Refusal(_detail(answer, content), _retry_after(answer))
                raise ServerProblemError(
                    f"{method} {answer.url}: {_detail(answer, content)}", _problem(answer, content)
                )
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            return _Refusal(f"{type(error).__name__}: {error}", None)
        finally:
            replica.in_flight -= 1


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a try should be made again."""

    reason: str
    retry_after_s: float | None


def _retry_after(answer: aiohttp.ClientResponse) -> float | None:
    given = answer.headers.get("retry-after", "")
    # A date is allowed there too, but no server here sends one; then the pause that grows will do.
    return min(float(given), 60.0) if given.isdecimal() else None


def _problem(answer: aiohttp.ClientResponse, content: bytes) -> Problem | None:
    if answer.content_type != PROBLEM_JSON:
        return None
    try:
        return Problem.model_validate_json(content)
    except ValidationError:
        return None


def _detail(answer: aiohttp.ClientResponse, content: bytes) -> str:
    problem = _problem(answer, content)
    if problem is None:
        return f"HTTP {answer.status} {content[:200].decode(errors='replace')}"
    return f"HTTP {answer.status} {problem.type}: {problem.detail}"
