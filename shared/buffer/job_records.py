"""How jobs lie in Redis: what `JobStore` and `AsyncJobStore` have in common.

gagpo:jobs          hash: id → `JobRecord` as JSON
gagpo:jobs:order    list: ids in the order of their turns; a resumed job goes to the end
gagpo:jobs:active   the job that the services work for; absent when there is none
gagpo:<id>:state    where it stands; the only place that says so
gagpo:<id>:recipe   its recipe with every default spelled out, as JSON
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict

from shared.buffer.events import MAX_EVENTS
from shared.buffer.keys import JOBS, JOBS_ACTIVE, JOBS_ORDER, JobKeys
from shared.recipe import Recipe
from shared.schemas.job import TRANSITIONS, Job, JobState

ADD = (Path(__file__).parent / "add_job.lua").read_text()
CHANGE = (Path(__file__).parent / "change_job.lua").read_text()
REMOVE = (Path(__file__).parent / "remove_job.lua").read_text()

LATE_GROUPS_S = 300
"""How long after a job's removal a group that was on its way is still turned away."""

STATE_EVENT = "state"
"""Kind of the event that tells of a change of state; its payload has ``state``, ``before`` and ``reason``."""

Argument = str | bytes | int | float


class UnknownJobError(LookupError):
    """There is no job of that id."""

    def __init__(self, job: str) -> None:
        """``job`` is the id that was asked for."""
        super().__init__(f"there is no job {job!r}")
        self.job = job


class JobConflictError(Exception):
    """The id belongs to something else already."""


class IllegalTransitionError(Exception):
    """The change of state is not in the table of legal ones."""

    def __init__(self, job: str, before: JobState, to: JobState) -> None:
        """The job stays in the state ``before``."""
        super().__init__(f"job {job} is {before.value} and can't become {to.value}")
        self.job = job
        self.before = before
        self.to = to


class JobNotOverError(Exception):
    """A job that is not over can't be removed."""

    def __init__(self, job: str, state: JobState) -> None:
        """The job stays, in ``state``."""
        super().__init__(f"job {job} is {state.value} and can't be removed before it is over")
        self.job = job
        self.state = state


class JobRecord(BaseModel):
    """What is kept of a job besides its state, its policy version and its recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    steps: int
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    policy_version: int = 0
    """When it was last started: until its trainer has given the policy servers the weights, they may hold others."""
    change: str | None = None
    """Id of the last change of state."""


def add_call(job: str, recipe: Recipe) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of the script `ADD`."""
    keys = JobKeys(job)
    record = JobRecord(id=job, name=recipe.name, steps=recipe.training.steps, submitted_at=datetime.now(UTC))
    event = {"state": JobState.QUEUED.value, "before": None, "reason": None}
    return (
        [JOBS, JOBS_ORDER, keys.recipe, keys.state, keys.events, keys.frontier],
        [
            job,
            record.model_dump_json(),
            recipe.model_dump_json(),
            JobState.QUEUED.value,
            repr(time.time()),
            orjson.dumps(event),
            MAX_EVENTS,
        ],
    )


def added(job: str, outcome: bytes) -> bool:
    """What the script `ADD` answered: True for a new job, False for one that is there. Raises `JobConflictError`."""
    if outcome == b"conflict":
        raise JobConflictError(
            f"job {job!r} exists with another recipe: leave the id out, or choose another one, to submit this one"
        )
    if outcome == b"taken":
        raise JobConflictError(f"{job!r} is the id of a run that was not submitted as a job: choose another id")
    return outcome == b"added"


def change_call(job: str, to: JobState, reason: str | None) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of the script `CHANGE`."""
    keys = JobKeys(job)
    legal = [before.value for before, after in TRANSITIONS.items() if to in after]
    return (
        [JOBS, JOBS_ORDER, JOBS_ACTIVE, keys.state, keys.events, keys.policy_version],
        [
            job,
            to.value,
            f",{','.join(legal)},",
            "over" if to.over else "",
            reason or "",
            datetime.now(UTC).isoformat(),
            repr(time.time()),
            MAX_EVENTS,
            uuid.uuid4().hex,
        ],
    )


def changed(job: str, to: JobState, outcome: Sequence[bytes]) -> None:
    """What the script `CHANGE` answered. Raises `UnknownJobError` or `IllegalTransitionError`."""
    verdict, before = outcome
    if verdict == b"unknown":
        raise UnknownJobError(job)
    if verdict == b"illegal":
        raise IllegalTransitionError(job, JobState(before.decode()), to)


def remove_call(job: str) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of the script `REMOVE`."""
    over = [state.value for state in JobState if state.over]
    keys = JobKeys(job)
    others = [key for key in keys.lasting if key != keys.frontier]
    return [JOBS, JOBS_ORDER, keys.frontier, *others], [job, f",{','.join(over)},", LATE_GROUPS_S]


def removed(job: str, outcome: Sequence[bytes]) -> None:
    """What the script `REMOVE` answered. Raises `UnknownJobError` or `JobNotOverError`."""
    verdict, before = outcome
    if verdict == b"unknown":
        raise UnknownJobError(job)
    if verdict == b"illegal":
        raise JobNotOverError(job, JobState(before.decode()))


def status_keys(order: Sequence[bytes]) -> list[str]:
    """The keys of the jobs' states and policy versions, for MGET."""
    keys = [JobKeys(job.decode()) for job in order]
    return [key for one in keys for key in (one.state, one.policy_version)]


def assemble(order: Sequence[bytes], records: Mapping[bytes, bytes], statuses: Sequence[bytes | None]) -> list[Job]:
    """The jobs in the order of their turns; ``statuses`` are the values of `status_keys`."""
    jobs: list[Job] = []
    waiting = 0
    for place, job in enumerate(order):
        state, version = statuses[2 * place : 2 * place + 2]
        if state is None or job not in records:
            continue  # added after the order was read
        record = JobRecord.model_validate_json(records[job])
        stands = JobState(state.decode())
        queued = stands is JobState.QUEUED
        jobs.append(
            Job(
                **record.model_dump(exclude={"change", "policy_version"}),
                state=stands,
                policy_version=int(version or record.policy_version),
                position=waiting if queued else None,
            )
        )
        waiting += queued
    return jobs


def state_of(stored: bytes | None) -> JobState | None:
    """The state that is stored; None where none is."""
    return None if stored is None else JobState(stored.decode())


def newest_first(jobs: Sequence[Job]) -> list[Job]:
    """As a list of jobs is shown."""
    return sorted(jobs, key=lambda job: job.submitted_at, reverse=True)


def whose_turn(jobs: Sequence[Job]) -> str | None:
    """The job to work on next: one that was interrupted goes before those that wait."""
    for wanted in (JobState.RUNNING, JobState.INTERRUPTED, JobState.QUEUED):
        for job in jobs:
            if job.state is wanted:
                return job.id
    return None
