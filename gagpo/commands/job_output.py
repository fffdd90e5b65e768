"""How ``gagpo job`` writes jobs for people."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import tomli_w
from pydantic import JsonValue
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from gagpo.client.download import Progress as ByteProgress
from gagpo.client.download import ignore_progress
from gagpo.watching import TrainedStep, first_line
from shared.schemas.job import Checkpoint, Job, JobDetail


def job_list(jobs: Sequence[Job]) -> str:
    """A line for each job under a line of headings, in columns that are as wide as they need to be."""
    rows = [("job", "state", "steps", "submitted", "note")]
    for job in jobs:
        steps = f"{job.policy_version}/{job.steps}"
        rows.append((job.id, job.state.value, steps, _local(job.submitted_at), note(job)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def job_text(job: JobDetail, checkpoints: Sequence[Checkpoint], evaluations: Iterable[str]) -> str:
    """Everything about one job; its recipe as TOML, so that it can be saved and submitted again."""
    rows = [
        ("job", job.id),
        ("state", f"{job.state.value}: {job.reason or note(job)}".removesuffix(": ")),
        ("steps", f"{job.policy_version}/{job.steps}"),
        ("submitted", _local(job.submitted_at)),
        ("started", _local(job.started_at)),
        ("ended", _local(job.ended_at)),
        ("latest step", TrainedStep.model_validate(job.metrics).shown() if job.metrics else ""),
        ("checkpoints", ", ".join(f"{one.version} ({one.bytes / 1e6:.1f} MB)" for one in checkpoints)),
    ]
    lines = [f"{name:<12}{value}" for name, value in rows if value]
    return "\n".join([*lines, *evaluations, "", tomli_w.dumps(without_null(job.recipe)).rstrip()])


def note(job: Job) -> str:
    """Why a job is in its state in one line, or its place in the queue."""
    if job.reason:
        return first_line(job.reason)
    if job.position is None:
        return ""
    return "next" if job.position == 0 else f"{job.position} before it"


@contextlib.contextmanager
def byte_bar(console: Console) -> Iterator[ByteProgress]:
    """A bar of bytes while something is downloaded, where ``console`` is a terminal."""
    if not console.is_terminal:
        yield ignore_progress
        return
    columns = (TextColumn("downloading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def report(received: int, total: int | None) -> None:
            progress.update(task, completed=received, total=total)

        yield report


def _local(time: datetime | None) -> str:
    return "" if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def without_null(table: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A table as TOML can have it, which knows no null: a key that is left out says the same."""
    return {key: _without_null(value) for key, value in table.items() if value is not None}


def _without_null(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return without_null(value)
    return [_without_null(one) for one in value] if isinstance(value, list) else value
