"""A Python client for the env server's REST API (DESIGN §4)."""

from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel

from shared.schemas.environment import (
    EnvironmentDescription,
    EnvironmentList,
    Observation,
    Problem,
    SessionList,
    SessionRequest,
    StepRequest,
    StepResult,
    TaskPage,
)
from shared.service import Scope, authorization

_PROBLEM_JSON = "application/problem+json"

Answer = TypeVar("Answer", bound=BaseModel)


class EnvironmentServerError(Exception):
    """The env server refused a request, or did not answer; ``problem`` is its problem document if it sent one."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        """The message is the problem's own detail."""
        super().__init__(message)
        self.problem = problem


class EnvironmentClient:
    """Steps environments over HTTP. One client serves any number of sessions."""

    def __init__(self, url: str, timeout_s: float = 60.0) -> None:
        """Opens no connection yet. ``timeout_s`` bounds every request.

        Shows the token in ``GAGPO_TOKEN_ENVIRONMENTS`` or ``GAGPO_TOKEN``, where there is one.
        """
        self._http = httpx.Client(base_url=url, headers=authorization(Scope.ENVIRONMENTS), timeout=timeout_s)
        self._url = url

    def __enter__(self) -> Self:
        """The connections are closed at the end of the ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
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
        return self._ask(SessionList, "POST", "/v1/sessions", request).sessions

    def step(self, session_id: str, action: str, step_index: int) -> StepResult:
        """Take one step. Repeating the same step is safe and returns the same result."""
        body = StepRequest(action=action, step_index=step_index)
        return self._ask(StepResult, "POST", f"/v1/sessions/{session_id}/step", body)

    def close_session(self, session_id: str) -> None:
        """Forget a session."""
        self._send("DELETE", f"/v1/sessions/{session_id}", None)

    def _ask(self, kind: type[Answer], method: str, path: str, body: BaseModel | None = None) -> Answer:
        return kind.model_validate_json(self._send(method, path, body).content)

    def _send(self, method: str, path: str, body: BaseModel | None) -> httpx.Response:
        content = None if body is None else body.model_dump_json(exclude_none=True)
        try:
            answer = self._http.request(method, path, content=content, headers={"content-type": "application/json"})
        except httpx.TransportError as error:
            raise EnvironmentServerError(
                f"no answer from the env server at {self._url} ({error}). "
                "Is it running? Start one with: python -m services.env_server --port 8001"
            ) from error
        if answer.is_success:
            return answer
        if answer.headers.get("content-type", "").startswith(_PROBLEM_JSON):
            problem = Problem.model_validate_json(answer.content)
            raise EnvironmentServerError(problem.detail, problem)
        raise EnvironmentServerError(f"{method} {path}: HTTP {answer.status_code} {answer.text[:200]}")
