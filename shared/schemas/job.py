"""A training job: its states, the legal changes between them, and the messages of the job API (DESIGN §8)."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class JobState(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    """Waits for its turn: one job runs at a time."""
    RUNNING = "running"
    """Groups are made and trained on."""
    INTERRUPTED = "interrupted"
    """Its trainer stopped before the end (a restart, a stop signal, a lost machine); goes on by itself."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Nothing more is done for the job unless somebody resumes it."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.FAILED, JobState.CANCELLED}),
    JobState.RUNNING: frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED}),
    JobState.INTERRUPTED: frozenset({JobState.RUNNING, JobState.FAILED, JobState.CANCELLED}),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
    JobState.COMPLETED: frozenset(),
}
"""Every legal change of state. From failed and cancelled, resuming leads back to the queue."""


class Message(BaseModel):
    """Base of every message: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class JobSubmission(Message):
    """Body of ``POST /v1/jobs``."""

    recipe: dict[str, JsonValue]
    """A recipe as its TOML reads, checked as `shared.recipe.Recipe`."""
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """The job's id; made from the recipe's name and the time when left out. Submitting the same id and recipe again
    gives the job there is."""


class Job(Message):
    """One job, as the API shows it."""

    id: str
    name: str
    """Its recipe's name."""
    state: JobState
    reason: str | None = None
    """Why it is in this state, where there is something to say: an error, who cancelled."""
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    policy_version: int = 0
    """Training steps done."""
    steps: int
    """Training steps that the recipe asks for."""
    position: int | None = None
    """Place in the queue, 0 the next; None for a job that is not queued."""


class JobDetail(Job):
    """``GET /v1/jobs/{id}``: the job with its whole recipe and the metrics of its latest training step."""

    recipe: dict[str, JsonValue]
    metrics: dict[str, JsonValue] = Field(default_factory=dict)


class JobList(Message):
    """``GET /v1/jobs``: the newest first."""

    jobs: list[Job]


class JobEvent(Message):
    """One event of ``GET /v1/jobs/{id}/events`` (SSE: ``id``, ``event`` = kind, ``data`` = payload as JSON)."""

    id: str
    """Where to go on from: the Last-Event-ID of a reconnecting client."""
    kind: str
    payload: dict[str, JsonValue]


class Checkpoint(Message):
    """One checkpoint of a job; ``GET …/checkpoints/{version}/archive`` downloads it as an uncompressed tar."""

    version: int
    bytes: int
    created_at: datetime


class CheckpointList(Message):
    """``GET /v1/jobs/{id}/checkpoints``: the newest last."""

    checkpoints: list[Checkpoint]
