"""What a player asks of the env servers, over the same REST API as a policy: tasks, sessions, steps."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from shared.problems import PROBLEM_JSON
from shared.schemas.environment import (
    EnvironmentDescription,
    EnvironmentList,
    Observation,
    Problem,
    SessionList,
    SessionRequest,
    StepRequest,
    StepResult,
)
from shared.service import Scope, authorization
from shared.telemetry import without_secrets

logger = logging.getLogger(__name__)

LIST_DEADLINE_S = 5.0
OPEN_DEADLINE_S = 75.0
"""An env server gives up on a task after 60 s itself, unless it is set up otherwise."""
STEP_DEADLINE_S = 15.0
"""An env server gives up on a step after 10 s itself, unless it is set up otherwise."""
CLOSE_DEADLINE_S = 5.0

_CONFLICT = "/problems/step-conflict"

Answer = TypeVar("Answer", bound=BaseModel)


class EnvServerError(Exception):
    """An env server refused a request, or gave no answer that can be used."""

    def __init__(
        self, url: str, reason: str, *, status: int | None = None, kind: str = "", title: str = "", wait_s: str = ""
    ) -> None:
        """``status`` is None without an answer; ``kind`` is the problem's type, ``wait_s`` its ``Retry-After``."""
        super().__init__(reason)
        self.url = without_secrets(url)
        self.reason = reason
        self.status = status
        self.kind = kind
        self.title = title
        self.wait_s = wait_s

    @property
    def another_may_do(self) -> bool:
        """Whether the same request to another env server may go better."""
        return self.status in (None, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Offer:
    """An environment that can be played."""

    description: EnvironmentDescription
    urls: list[str]
    """The env servers that have it, all with the same tasks."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An action and what came of it."""

    action: str
    result: StepResult


class EnvServers:
    """The env servers that training uses."""

    def __init__(self, client: httpx.AsyncClient, urls: Sequence[str]) -> None:
        """``client`` stays open as long as this and the sessions are used."""
        self._client = client
        self._urls = list(urls)

    async def offers(self) -> dict[str, Offer]:
        """Name → every environment that is served. Raises `EnvServerError` where no env server answers."""
        answers = await asyncio.gather(*(self._listed(url) for url in self._urls))
        failed = [answer for answer in answers if isinstance(answer, EnvServerError)]
        if failed and len(failed) == len(answers):
            raise failed[0]
        found: dict[str, Offer] = {}
        for url, answer in zip(self._urls, answers, strict=True):
            for one in [] if isinstance(answer, EnvServerError) else answer:
                offer = found.setdefault(one.name, Offer(one, []))
                if one.data_digest == offer.description.data_digest:
                    offer.urls.append(url)
        return found

    async def open(self, offer: Offer, request: SessionRequest) -> "PlayedSession":
        """Open one session on the first env server that can. Raises `EnvServerError`, the last one's."""
        refused: EnvServerError | None = None
        for url in offer.urls:
            try:
                opened = await _ask(self._client, "POST", url, "/v1/sessions", SessionList, OPEN_DEADLINE_S, request)
            except EnvServerError as error:
                if not error.another_may_do:
                    raise
                refused = error
            else:
                return PlayedSession(self._client, url, opened.sessions[0])
        assert refused is not None, "an offer names an env server"
        raise refused

    async def _listed(self, url: str) -> "list[EnvironmentDescription] | EnvServerError":
        try:
            listed = await _ask(self._client, "GET", url, "/v1/environments", EnvironmentList, LIST_DEADLINE_S)
        except EnvServerError as error:
            return error
        return listed.environments


class PlayedSession:
    """One open session."""

    def __init__(self, client: httpx.AsyncClient, url: str, first: Observation) -> None:
        """``first`` is its first observation."""
        self._client = client
        self._url = url
        self._path = f"/v1/sessions/{quote(first.session_id, safe='')}"
        self._unanswered: list[str] = []
        """Actions whose answers were lost: the next step of the session may be taken already, with one of them."""
        self.first = first

    @property
    def url(self) -> str:
        """The env server, for showing."""
        return without_secrets(self._url)

    async def step(self, action: str, step_index: int) -> Turn:
        """Take a step. Raises `EnvServerError`; the same step may be taken again.

        Where an earlier try got no answer but had been taken all the same, the turn is that one.
        """
        try:
            turn = await self._step(action, step_index)
        except EnvServerError as error:
            if error.kind == _CONFLICT and (earlier := await self._find_unanswered(step_index)) is not None:
                return earlier
            if error.status is None:
                self._unanswered.append(action)
            raise
        self._unanswered.clear()
        return turn

    async def close(self) -> None:
        """Let go of it; where that fails, the env server forgets it after a while by itself."""
        try:
            await _send(self._client, "DELETE", self._url, self._path, CLOSE_DEADLINE_S)
        except EnvServerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                logger.warning("a played session was not closed: %s: %s", error.url, error.reason)

    async def _find_unanswered(self, step_index: int) -> Turn | None:
        for action in self._unanswered:
            try:
                turn = await self._step(action, step_index)
            except EnvServerError as error:
                if error.kind != _CONFLICT:
                    raise
            else:
                self._unanswered.clear()
                return turn
        return None

    async def _step(self, action: str, step_index: int) -> Turn:
        body = StepRequest(action=action, step_index=step_index)
        path = f"{self._path}/step"
        return Turn(action, await _ask(self._client, "POST", self._url, path, StepResult, STEP_DEADLINE_S, body))


async def _ask(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    path: str,
    kind: type[Answer],
    deadline_s: float,
    body: BaseModel | None = None,
) -> Answer:
    answer = await _send(client, method, url, path, deadline_s, body)
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError as error:
        reason = f"{method} {path}: its answer is not what an env server says: {error.errors()[0]['msg']}"
        raise EnvServerError(url, reason, status=answer.status_code) from error


async def _send(
    client: httpx.AsyncClient, method: str, url: str, path: str, deadline_s: float, body: BaseModel | None = None
) -> httpx.Response:
    """A good answer. Raises `EnvServerError` for any other, and for none within the deadline."""
    content = None if body is None else body.model_dump_json(exclude_none=True)
    headers = {"content-type": "application/json", **authorization(Scope.ENVIRONMENTS)}
    try:
        async with asyncio.timeout(deadline_s):
            answer = await client.request(method, url + path, content=content, headers=headers, timeout=deadline_s)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise EnvServerError(url, f"no answer within {deadline_s:.0f} s") from error
    except httpx.TransportError as error:
        raise EnvServerError(url, without_secrets(str(error)) or type(error).__name__) from error
    if answer.is_success:
        return answer
    raise _refusal(url, f"{method} {path}", answer)


def _refusal(url: str, asked: str, answer: httpx.Response) -> EnvServerError:
    wait_s = answer.headers.get("retry-after", "")
    if answer.headers.get("content-type", "").startswith(PROBLEM_JSON):
        try:
            problem = Problem.model_validate_json(answer.content)
        except ValidationError:  # not RFC 9457 after all: the text itself is shown
            pass
        else:
            return EnvServerError(
                url, problem.detail, status=problem.status, kind=problem.type, title=problem.title, wait_s=wait_s
            )
    reason = f"{asked}: HTTP {answer.status_code} {answer.text[:200]}"
    return EnvServerError(url, reason, status=answer.status_code, wait_s=wait_s)
