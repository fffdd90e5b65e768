"""The job API's requests and answers as plain values: the part that the blocking and the asyncio client share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from gagpo.client.errors import JobError, refusal, unreadable
from shared.schemas.job import Checkpoint, CheckpointList, Job, JobDetail, JobList, JobSubmission

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request, and the kind of its answer."""

    method: str
    path: str
    answer: type[Answer]
    body: BaseModel | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The request, for the client's server."""
        content = None if self.body is None else self.body.model_dump_json(exclude_none=True)
        headers = dict(self.headers) if content is None else {**self.headers, "content-type": "application/json"}
        return http.build_request(self.method, self.path, content=content, headers=headers)

    def read(self, response: httpx.Response) -> Answer:
        """The answer in a response whose body was read. Raises `JobError` for a refusal."""
        if not response.is_success:
            raise refusal(response)
        try:
            return self.answer.model_validate_json(response.content)
        except ValidationError as error:
            raise unreadable(response, error) from error


def submit(recipe: dict[str, JsonValue], job: str | None) -> Call[Job]:
    """``POST /v1/jobs``."""
    return Call("POST", "/v1/jobs", Job, JobSubmission(recipe=recipe, id=job))


def listing() -> Call[JobList]:
    """``GET /v1/jobs``."""
    return Call("GET", "/v1/jobs", JobList)


def detail(job: str) -> Call[JobDetail]:
    """``GET /v1/jobs/{id}``."""
    return Call("GET", job_path(job), JobDetail)


def cancel(job: str) -> Call[Job]:
    """``POST /v1/jobs/{id}/cancel``."""
    return Call("POST", job_path(job, "cancel"), Job)


def resume(job: str) -> Call[Job]:
    """``POST /v1/jobs/{id}/resume``."""
    return Call("POST", job_path(job, "resume"), Job)


def checkpoints(job: str) -> Call[CheckpointList]:
    """``GET /v1/jobs/{id}/checkpoints``."""
    return Call("GET", job_path(job, "checkpoints"), CheckpointList)


def choose(job: str, there: Sequence[Checkpoint], version: int | None) -> Checkpoint:
    """The checkpoint to download: the newest of ``there`` unless ``version`` says which. Raises `JobError`."""
    if not there:
        raise JobError(f"{job} has no checkpoint yet; `gagpo job show {job}` tells how far it is")
    chosen = there[-1] if version is None else next((one for one in there if one.version == version), None)
    if chosen is None:
        kept = ", ".join(str(one.version) for one in there)
        raise JobError(f"{job} has no checkpoint of version {version}; there is: {kept}")
    return chosen


def archive_path(job: str, version: int) -> str:
    """``GET /v1/jobs/{id}/checkpoints/{version}/archive``, whose answer is a tar."""
    return job_path(job, "checkpoints", str(version), "archive")


def checkpoint_folder(job: str, version: int) -> Path:
    """Where a checkpoint goes unless somebody says otherwise: below the working folder."""
    return Path(f"{job}-v{version}")


def job_path(job: str, *rest: str) -> str:
    """A path below a job; an id with a slash in it stays one part, and is refused by the server."""
    return "/".join(["/v1/jobs", *(quote(part, safe="") for part in (job, *rest))])
