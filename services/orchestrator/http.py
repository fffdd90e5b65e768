"""Requests to replicas of a server, tried again elsewhere or later until one takes them.

aiohttp, because a request costs its client a thirtieth of the CPU time that httpx takes at 64 at once, and this process
shares its cores with the servers.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from pydantic import ValidationError

from services.orchestrator.replicas import REFRESH_S, Membership, Replica, cancel, choose
from shared.addresses import Lookup, look_up
from shared.problems import PROBLEM_JSON
from shared.schemas.environment import Problem
from shared.service import Scope, authorization

_BACKOFF_FIRST_S = 0.05
_BACKOFF_MOST_S = 5.0
_UNUSABLE_PAUSE_S = 0.1
_CONNECT_TIMEOUT_S = 5.0
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


def anyone(_: Replica) -> bool:
    """Every replica will do."""
    return True


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    replica: Replica
    """Who gave it."""
    content: bytes


class ReplicaSet:
    """Servers that can stand in for each other, as many as their URLs' host names have addresses by now."""

    def __init__(
        self,
        urls: Sequence[str],
        timeout_s: float,
        deadline_s: float,
        scope: Scope | None = None,
        *,
        lookup: Lookup = look_up,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """``timeout_s`` bounds one try, ``deadline_s`` all tries of a request. Open it as a context manager.

        ``scope`` is that of the token to show, where there is one. Host names are looked up with ``lookup`` every
        ``refresh_s`` seconds. Raises ValueError for what is no URL.
        """
        self._authorization = {} if scope is None else authorization(scope)
        self._membership = Membership(urls, lookup)
        self.urls = tuple(urls)
        self._timeout_s = timeout_s
        self.deadline_s = deadline_s
        self._refresh_s = refresh_s
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Make the connection pool, and look up who is there."""
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECT_TIMEOUT_S),
                headers={"accept": "application/json", **self._authorization},
            )
        )
        await self._membership.refresh()
        task = asyncio.create_task(self._membership.keep_up(self._refresh_s), name=f"look up {', '.join(self.urls)}")
        self._stack.push_async_callback(cancel, task)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    @property
    def replicas(self) -> list[Replica]:
        """Everyone who is there."""
        return self._membership.replicas

    def least_busy(self) -> Replica | None:
        """The replica with the fewest requests in flight; None while no host name has an address."""
        return choose(self.replicas, anyone)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        first: Replica | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> bytes:
        """The body of a successful answer; otherwise as `ask`."""
        return (await self.ask(method, path, body, first, headers)).content

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        first: Replica | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        usable: Callable[[Replica], bool] = anyone,
    ) -> Answer:
        """A successful answer. ``first`` is the replica to try first, the least busy by default.

        A request that is not taken (no connection, 429, 502, 503) is tried again on the next replica; once all that
        are ``usable`` were tried, after a pause that grows, or that the server names. Raises `ServerUnavailableError`
        after the deadline and `ServerProblemError` for every other refusal.
        """
        give_up = time.monotonic() + self.deadline_s
        tried: set[Replica] = set()
        rounds, last = 0, _Refusal("none of them can be used now", None)
        while True:
            replica = self._next(first, tried, usable)
            if replica is not None:
                outcome = await self._try(replica, method, path, body, headers)
                if isinstance(outcome, Answer):
                    return outcome
                last = outcome
                tried.add(replica)
                continue
            rounds += bool(tried)
            pause = _pause(rounds, last) if tried else _UNUSABLE_PAUSE_S
            if time.monotonic() + pause > give_up:
                there = [one.url for one in self.replicas] or list(self.urls)
                raise ServerUnavailableError(
                    f"{method} {path}: not taken by any of {there} in {self.deadline_s:.0f} s; last: {last.reason}"
                )
            tried.clear()
            await asyncio.sleep(pause)

    async def ask_only(self, replica: Replica, path: str, timeout_s: float) -> bytes:
        """The body of one replica's answer to a GET, asked once.

        Raises `ServerUnavailableError` when it does not take the request in time, and `ServerProblemError`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await self._try(replica, "GET", path, None, _NO_HEADERS)
        except TimeoutError as error:
            raise ServerUnavailableError(f"GET {replica.url}{path}: no answer in {timeout_s:.0f} s") from error
        if isinstance(outcome, Answer):
            return outcome.content
        raise ServerUnavailableError(f"GET {replica.url}{path}: {outcome.reason}")

    def _next(self, first: Replica | None, tried: set[Replica], usable: Callable[[Replica], bool]) -> Replica | None:
        left = [replica for replica in self.replicas if replica not in tried]
        if first in left and not first.down and usable(first):
            return first
        return choose(left, usable)

    async def _try(
        self, replica: Replica, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> "Answer | _Refusal":
        assert self._session is not None, "the replica set was not opened"
        replica.in_flight += 1
        to = replica.address
        sent = {**_JSON, "host": to.host, **headers}
        try:
            async with self._session.request(
                method, to.url + path, data=body, headers=sent, server_hostname=to.tls_name
            ) as answer:
                content = await answer.read()
                replica.count_answer()
                if answer.status < 400:
                    return Answer(replica, content)
                if answer.status in TRY_AGAIN:
                    return _Refusal(_detail(answer, content), _retry_after(answer))
                raise ServerProblemError(
                    f"{method} {answer.url}: {_detail(answer, content)}", _problem(answer, content)
                )
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            replica.count_failure()
            return _Refusal(f"{type(error).__name__}: {error}", None)
        finally:
            replica.in_flight -= 1


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a try should be made again."""

    reason: str
    retry_after_s: float | None


def _pause(rounds: int, last: _Refusal) -> float:
    growing = min(_BACKOFF_FIRST_S * 2.0**rounds, _BACKOFF_MOST_S)
    return last.retry_after_s or growing * random.uniform(0.5, 1.0)  # apart, so that not all come at once


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
    # The server's own log has lines about the request under this id.
    request = answer.headers.get("x-request-id")
    return f"HTTP {answer.status} {problem.type}: {problem.detail}" + (f" (request {request})" if request else "")
