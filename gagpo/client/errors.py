"""The one exception of the job clients, and how a failed request becomes one."""

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from shared.schemas.environment import Problem

_PROBLEM_JSON = "application/problem+json"
_BODY_SHOWN = 200


class Fault(BaseModel):
    """One fault of a refused request."""

    model_config = ConfigDict(extra="ignore")

    field: str
    """Where: a key of the recipe, or a part of the request."""
    message: str
    """What is wrong with the value, and what would be right."""


class JobError(Exception):
    """What a job client was asked for could not be done: refused by the server, or nobody answered.

    The message is for a person. ``problem`` is the server's problem document. It is None where none came: nobody
    answered, something between client and server did, or this machine is what cannot (a download's folder, say).
    """

    def __init__(self, message: str, problem: Problem | None = None, status: int | None = None) -> None:
        """``status`` is the HTTP status; None where nobody answered."""
        super().__init__(message)
        self.problem = problem
        self.status = status

    @property
    def type(self) -> str | None:
        """What programs switch on, such as ``/problems/unknown-job``."""
        return None if self.problem is None else self.problem.type

    @property
    def title(self) -> str | None:
        """The kind of problem in words."""
        return None if self.problem is None else self.problem.title

    @property
    def detail(self) -> str | None:
        """What is wrong with this very request."""
        return None if self.problem is None else self.problem.detail

    @property
    def faults(self) -> list[Fault]:
        """Field by field what is wrong with a refused recipe; empty where the problem is not one of fields."""
        return [] if self.problem is None else _faults(self.problem)


def refusal(response: httpx.Response) -> JobError:
    """The error that an answer with a status of 400 or more says. Its body must have been read."""
    request = f"{response.request.method} {response.request.url.path}"
    if response.headers.get("content-type", "").startswith(_PROBLEM_JSON):
        problem = Problem.model_validate_json(response.content)
        return JobError(_told(problem), problem, response.status_code)
    return JobError(
        f"{request}: HTTP {response.status_code} from {response.request.url.host}, and no problem document: is it the "
        f"job server that listens there? It said: {response.text[:_BODY_SHOWN]!r}",
        status=response.status_code,
    )


def unreachable(url: str, error: httpx.TransportError) -> JobError:
    """The error of a request that nobody answered, or not to the end."""
    cause = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return JobError(
            f"the job server at {url} did not answer in time ({cause}). Is the network slow, or the server busy? "
            f"Its own view: curl {url}/readyz"
        )
    return JobError(
        f"no answer from the job server at {url} ({cause}). Is the trainer running there, and the port published? "
        f"Check: curl {url}/readyz; another address goes into --server or GAGPO_SERVER"
    )


def unreadable(response: httpx.Response, error: ValidationError) -> JobError:
    """The error of an answer that is not what the job API gives."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JobError(
        f"{response.request.method} {response.request.url.path}: the answer is not one of the job API "
        f"({where}: {first['msg']}). Is the server of the same release?",
        status=response.status_code,
    )


def _told(problem: Problem) -> str:
    if problem.status == httpx.codes.UNAUTHORIZED:
        return f"{problem.detail} The client takes one from GAGPO_TOKEN_JOBS or GAGPO_TOKEN"
    faults = _faults(problem)
    if not faults:
        return problem.detail
    return "\n".join([f"{problem.title}:", *(f"  {fault.field}: {fault.message}" for fault in faults)])


def _faults(problem: Problem) -> list[Fault]:
    listed = (problem.model_extra or {}).get("faults", [])
    return [Fault.model_validate(fault) for fault in listed]
