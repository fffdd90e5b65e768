"""A Python client for the env server's REST API (DESIGN §4)."""

import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from shared.schemas.environment import (
    EnvironmentDescription,
    EnvironmentList,
    Observation,
    Problem,
    SessionList,
    SessionRequest,
    SessionState,
    SessionStep,
    StepBatch,
    StepBatchResult,
    StepRequest,
    StepResult,
    TaskPage,
)
from shared.service import Scope, authorization

_PROBLEM_JSON = "application/problem+json"

_FOR_NOW = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)
"""The server could not do it at the moment; nothing has happened, and the same request may be sent again."""

_JSON = {"content-type": "application/json"}
_NO_HEADERS: Mapping[str, str] = {}

_PAUSE_S = 0.5
"""Before a request is sent again, where the server does not say how long to wait."""

Answer = TypeVar("Answer", bound=BaseModel)


class EnvironmentServerError(Exception):
    """The env server refused a request, or did not answer; ``problem`` is its problem document if it sent one."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        """The message is the problem's own detail."""
        super().__init__(message)
        self.problem = problem


class EnvironmentClient:
    """Steps environments over HTTP. One client serves any number of sessions."""

    def __init__(self, url: str, timeout_s: float = 60.0, patience_s: float = 0.0) -> None:
        """Opens no connection yet. ``timeout_s`` bounds every request.

        A request that gets no answer, or a 503 or 504, is sent again until ``patience_s`` have passed: no step is taken
        twice and nothing is opened twice. Shows the token in ``GAGPO_TOKEN_ENVIRONMENTS`` or ``GAGPO_TOKEN``, where
        there is one.
        """
        self._http = httpx.Client(base_url=url, headers=authorization(Scope.ENVIRONMENTS), timeout=timeout_s)
        self._url = url
        self._patience_s = patience_s

    def __enter__(self) -> Self:
        """The connections are closed at the end of the ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; sessions stay open."""
        self._http.close()

    def environments(self) -> list[EnvironmentDescription]:
        """What the server serves."""
        return self._ask(EnvironmentList, "GET", "/v1/environments").environments

    def tasks(self, environment: str, split: str, offset: int = 0, limit: int = 100) -> TaskPage:
        """A page of a split's task ids."""
        query = httpx.QueryParams(split=split, offset=offset, limit=limit)
        return self._ask(TaskPage, "GET", f"/v1/environments/{environment}/tasks?{query}")

    def open(self, request: SessionRequest) -> list[Observation]:
        """Open sessions of one task; each comes with its first observation."""
        key = {"idempotency-key": uuid.uuid4().hex}  # sent again, it answers with the sessions of the first time
        return self._ask(SessionList, "POST", "/v1/sessions", request, key).sessions

    def step(self, session_id: str, action: str, step_index: int) -> StepResult:
        """Take one step. Repeating the same step is safe and returns the same result."""
        body = StepRequest(action=action, step_index=step_index)
        return self._ask(StepResult, "POST", f"{_path(session_id)}/step", body)

    def steps(self, steps: Sequence[SessionStep]) -> list[StepResult]:
        """Take steps of many sessions with one request; their results in the same order.

        What the server cannot do for now is sent again, as long as there is patience. Raises `EnvironmentServerError`
        for the first step that it refuses; the others are taken, and the same call again returns their results.
        """
        deadline = time.monotonic() + self._patience_s
        done: dict[int, StepResult] = {}
        while len(done) < len(steps):
            left = [place for place in range(len(steps)) if place not in done]
            body = StepBatch(steps=[steps[place] for place in left])
            answers = self._ask(StepBatchResult, "POST", "/v1/steps", body).results
            problems = [answer for answer in answers if isinstance(answer, Problem)]
            lasting = [problem for problem in problems if problem.status not in _FOR_NOW]
            done |= {place: one for place, one in zip(left, answers, strict=True) if isinstance(one, StepResult)}
            if problems and (lasting or time.monotonic() >= deadline):
                problem = (lasting or problems)[0]
                raise EnvironmentServerError(problem.detail, problem)
            if problems:
                time.sleep(_PAUSE_S)
        return [done[place] for place in range(len(steps))]

    def close_session(self, session_id: str) -> None:
        """Forget a session."""
        self._send("DELETE", _path(session_id), None)

    def state(self, session_id: str) -> SessionState:
        """The session as it is now."""
        return self._ask(SessionState, "GET", _path(session_id))

    def _ask(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        body: BaseModel | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer:
        return kind.model_validate_json(self._send(method, path, body, headers).content)

    def _send(
        self, method: str, path: str, body: BaseModel | None, headers: Mapping[str, str] = _NO_HEADERS
    ) -> httpx.Response:
        content = None if body is None else body.model_dump_json(exclude_none=True)
        answer = self._patiently(self._http.build_request(method, path, content=content, headers={**_JSON, **headers}))
        if answer.is_success:
            return answer
        if answer.headers.get("content-type", "").startswith(_PROBLEM_JSON):
            problem = Problem.model_validate_json(answer.content)
            raise EnvironmentServerError(problem.detail, problem)
        raise EnvironmentServerError(f"{method} {path}: HTTP {answer.status_code} {answer.text[:200]}")

    def _patiently(self, request: httpx.Request) -> httpx.Response:
        """The server's answer; one that may change is asked for again while there is patience."""
        deadline = time.monotonic() + self._patience_s
        while True:
            left = deadline - time.monotonic()
            try:
                answer = self._http.send(request)
            except httpx.TransportError as error:
                if left <= 0:
                    raise EnvironmentServerError(
                        f"no answer from the env server at {self._url} ({error}). "
                        "Is it running? Start one with: python -m services.env_server --port 8001"
                    ) from error
                pause = _PAUSE_S
            else:
                if answer.status_code not in _FOR_NOW or left <= 0:
                    return answer
                pause = float(answer.headers.get("retry-after", _PAUSE_S))
            time.sleep(min(pause, max(left, 0.0)))


def _path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"
