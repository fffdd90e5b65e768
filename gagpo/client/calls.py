"""The job API's requests and answers as plain values: the part that the blocking and the asyncio client share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from gagpo.client.errors import JobError, refusal, unreadable
from shared.schemas.credit import CellDetail, CreditSteps, GroupCredit, StepCredit
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import Checkpoint, CheckpointList, Job, JobDetail, JobList, JobSubmission

Answer = TypeVar("Answer")

When = Literal["before", "after"]
"""Which evaluation of a job: before training, or after."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request, and how its answer is read."""

    method: str
    path: str
    parse: Callable[[bytes], Answer]
    body: BaseModel | None = None

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The request, for the client's server."""
        if self.body is None:
            return http.build_request(self.method, self.path)
        content = self.body.model_dump_json(exclude_none=True)
        return http.build_request(self.method, self.path, content=content, headers={"content-type": "application/json"})

    def read(self, response: httpx.Response) -> Answer:
        """The answer in a response whose body was read. Raises `JobError` for a refusal."""
        if not response.is_success:
            raise refusal(response)
        try:
            return self.parse(response.content)
        except ValidationError as error:
            raise unreadable(response, error) from error


def submit(recipe: dict[str, JsonValue], job: str | None) -> Call[Job]:
    """``POST /v1/jobs``. Raises `JobError` for an id that is none, and for what JSON cannot say."""
    try:
        body = JobSubmission(recipe=recipe, id=job)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise JobError(f"{where} = {fault['input']!r}: {fault['msg']}") from error
    return Call("POST", "/v1/jobs", Job.model_validate_json, body)


def listing() -> Call[JobList]:
    """``GET /v1/jobs``."""
    return Call("GET", "/v1/jobs", JobList.model_validate_json)


def detail(job: str) -> Call[JobDetail]:
    """``GET /v1/jobs/{id}``."""
    return Call("GET", job_path(job), JobDetail.model_validate_json)


def cancel(job: str) -> Call[Job]:
    """``POST /v1/jobs/{id}/cancel``."""
    return Call("POST", job_path(job, "cancel"), Job.model_validate_json)


def resume(job: str) -> Call[Job]:
    """``POST /v1/jobs/{id}/resume``."""
    return Call("POST", job_path(job, "resume"), Job.model_validate_json)


def delete(job: str) -> Call[None]:
    """``DELETE /v1/jobs/{id}``."""
    return Call("DELETE", job_path(job), _nothing)


def checkpoints(job: str) -> Call[CheckpointList]:
    """``GET /v1/jobs/{id}/checkpoints``."""
    return Call("GET", job_path(job, "checkpoints"), CheckpointList.model_validate_json)


def logs(job: str, tail: int) -> Call[str]:
    """``GET /v1/jobs/{id}/logs``."""
    return Call("GET", f"{job_path(job, 'logs')}?tail={tail}", _text)


def evaluation(job: str, when: When) -> Call[EvaluationReport]:
    """``GET /v1/jobs/{id}/evaluations/{when}``."""
    return Call("GET", job_path(job, "evaluations", when), EvaluationReport.model_validate_json)


def credit_steps(job: str) -> Call[CreditSteps]:
    """``GET /v1/jobs/{id}/credit``."""
    return Call("GET", job_path(job, "credit"), CreditSteps.model_validate_json)


def credit(job: str, step: int) -> Call[StepCredit]:
    """``GET /v1/jobs/{id}/credit/{step}``."""
    return Call("GET", job_path(job, "credit", str(step)), StepCredit.model_validate_json)


def credit_group(job: str, step: int, group: int) -> Call[GroupCredit]:
    """``GET /v1/jobs/{id}/credit/{step}/groups/{index}``."""
    return Call("GET", job_path(job, "credit", str(step), "groups", str(group)), GroupCredit.model_validate_json)


def credit_cell(job: str, step: int, group: int, episode: int, turn: int) -> Call[CellDetail]:
    """``GET /v1/jobs/{id}/credit/{step}/groups/{index}/episodes/{episode}/steps/{turn}``."""
    place = ("groups", str(group), "episodes", str(episode), "steps", str(turn))
    return Call("GET", job_path(job, "credit", str(step), *place), CellDetail.model_validate_json)


def choose(job: str, there: Sequence[Checkpoint], version: int | None) -> Checkpoint:
    """The checkpoint to download: the newest of ``there`` unless ``version`` says which. Raises `JobError`."""
    if not there:
        raise JobError(f"{job} has no checkpoint yet; `gagpo job show {job}` tells how far it is")
    chosen = there[-1] if version is None else next((one for one in there if one.version == version), None)
    if chosen is None:
        kept = ", ".join(str(one.version) for one in there)
        raise JobError(f"{job} has no checkpoint of version {version}; there is: {kept}")
    return chosen


def archive_path(job: str, version: int, trainer_state: bool) -> str:
    """``GET /v1/jobs/{id}/checkpoints/{version}/archive``, whose answer is a tar."""
    return f"{job_path(job, 'checkpoints', str(version), 'archive')}?trainer_state={str(trainer_state).lower()}"


def checkpoint_folder(job: str, version: int) -> Path:
    """Where a checkpoint goes unless somebody says otherwise: below the working folder."""
    return Path(f"{job}-v{version}")


def job_path(job: str, *rest: str) -> str:
    """A path below a job; an id with a slash in it stays one part, and is refused by the server."""
    return "/".join(["/v1/jobs", *(quote(part, safe="") for part in (job, *rest))])


def _nothing(_: bytes) -> None:
    """The answer has no body."""


def _text(body: bytes) -> str:
    return body.decode(errors="replace")  # a program may have died in the middle of a character
