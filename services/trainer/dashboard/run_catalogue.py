"""Which runs there are: the service's jobs, and folders beside theirs that were trained by hand."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.trainer.server.service import TrainerService
from shared.run_layout import RunFiles
from shared.schemas.job import Job, JobState


@dataclass(frozen=True, slots=True)
class Run:
    """One run."""

    name: str
    """Its job's id, which is its folder's name."""
    files: RunFiles
    job: Job | None
    """None for a folder that no job of this service belongs to."""


async def all_runs(service: TrainerService) -> list[Run]:
    """Every job, the newest first, then folders with metrics that are no job's, by name."""
    jobs = await service.store.all()
    folders = await asyncio.to_thread(_folders_with_metrics, service.settings.runs.resolve())
    known = {job.id for job in jobs}
    of_jobs = [Run(job.id, RunFiles(service.settings.run_folder(job.id)), job) for job in jobs]
    return of_jobs + [Run(folder.name, RunFiles(folder), None) for folder in folders if folder.name not in known]


def first_choice(runs: Sequence[Run]) -> list[str]:
    """What to show before anything was chosen: the run at work, else the newest that has metrics."""
    at_work = [run.name for run in runs if run.job is not None and run.job.state is JobState.RUNNING]
    trained = [run.name for run in runs if run.job is None or run.job.policy_version > 0]
    return (at_work or trained)[:1]


def optimal_length(files: RunFiles) -> float | None:
    """Mean length of the expert's plans over a run's held-out tasks; None where it was never asked for them."""
    for when in ("before", "after"):
        try:
            results = json.loads(files.evaluation(when).read_bytes())["results"]
        except FileNotFoundError:
            continue
        lengths = [steps for one in results if (steps := one.get("optimal_steps")) is not None]
        if lengths:
            return float(sum(lengths) / len(lengths))
    return None


def _folders_with_metrics(runs: Path) -> list[Path]:
    if not runs.is_dir():
        return []
    return sorted(
        folder for folder in runs.iterdir() if not folder.name.startswith(".") and RunFiles(folder).metrics.exists()
    )
