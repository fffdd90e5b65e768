"""Making a study's runs: starts the processes that work on it, and shows how far they are."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from gagpo.comparing.errors import StudyError
from gagpo.comparing.planning import PlannedRun, RunState, StudyFolder
from gagpo.comparing.run_data import read_steps
from gagpo.comparing.run_record import read_record
from gagpo.stack import ProcessGroup, ServiceSpec
from gagpo.stack.servers import module_argv
from gagpo.training.memory import check_memory
from gagpo.training.summary import Summary
from shared.files import try_lock

_POLL_S = 1.0
_LANE_STOP_DEADLINE_S = 90.0
"""A lane stops four services in turn; it must not be killed before they have ended."""
_BAR = "{desc} {percentage:3.0f}%|{bar:20}| {elapsed} gone, {remaining} to go{postfix}"


@dataclass(frozen=True, slots=True)
class StudyJob:
    """What is to be made, and where."""

    study_file: Path
    folder: StudyFolder
    only: Sequence[str]
    """Just these variants; all, where none is named."""
    parallel: int


def make_runs(job: StudyJob, runs: Sequence[PlannedRun], say: Callable[[str], None]) -> None:
    """Make every run that is not complete, with one line for each that ends.

    Runs that fail are recorded in their folders. Raises `ServiceDiedError` when a lane itself breaks, `StudyError` when
    another process is at the study, `ModelTooLargeError` before anything is started.
    """
    _check_memory(job, [run for run in runs if run.state() is not RunState.COMPLETE])
    with _alone_at(job.folder):
        _make_runs(job, runs, say)


def _check_memory(job: StudyJob, runs: Sequence[PlannedRun]) -> None:
    """As many runs of one model as there are may share the machine."""
    models = Counter(run.recipe.model.path for run in runs)
    for run in runs:
        check_memory(run.recipe, at_once=min(job.parallel, models[run.recipe.model.path]))


def _make_runs(job: StudyJob, runs: Sequence[PlannedRun], say: Callable[[str], None]) -> None:
    ended = {run.name for run in runs if run.state() is RunState.COMPLETE}
    lanes = [_lane(job, number) for number in range(1, min(job.parallel, len(runs) - len(ended)) + 1)]
    with ProcessGroup(job.folder.path / "lanes") as group, _Bar(len(runs), len(ended)) as bar:
        attempts = {run.name: read_record(run.folder).attempts for run in runs}
        for lane in lanes:
            group.start(lane)
        while True:
            over = all(group.exit_code(lane.name) is not None for lane in lanes)
            for run in runs:
                if run.name not in ended and read_record(run.folder).attempts > attempts[run.name]:
                    ended.add(run.name)
                    bar.say(f"{run.name}: {_told(run)}", say)
            group.check()
            if over:
                return
            bar.show(len(ended), [run for run in runs if run.name not in ended])
            time.sleep(_POLL_S)


@contextmanager
def _alone_at(folder: StudyFolder) -> Iterator[None]:
    """Hold the study's lock: the lanes of two commands would use the same servers' folders."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with (folder.path / "study.lock").open("w") as file:
        if not try_lock(file):
            raise StudyError(f"--out {folder.path}: another gagpo compare is at work there; wait for it or stop it")
        yield


def _lane(job: StudyJob, number: int) -> ServiceSpec:
    argv = [*module_argv("gagpo.comparing.lane"), "--study", str(job.study_file), "--out", str(job.folder.path)]
    only = [part for name in job.only for part in ("--only", name)]
    return ServiceSpec(
        name=f"lane-{number}",
        argv=[*argv, "--number", str(number), *only],
        stop_deadline_s=_LANE_STOP_DEADLINE_S,
        may_end=True,
    )


def _told(run: PlannedRun) -> str:
    """What came of a run, on one line."""
    record = read_record(run.folder)
    if record.failure is not None:
        return f"failed: {record.failure}"
    summary = Summary.model_validate_json(run.folder.summary.read_bytes())
    told = f"{summary.training_steps} training steps, {record.seconds:.0f} s"
    if summary.before is None or summary.after is None:
        return told
    return f"held-out success {summary.before.success_rate:.1%} → {summary.after.success_rate:.1%}, {told}"


class _Bar:
    """A progress bar over runs, on a terminal only."""

    def __init__(self, runs: int, done: int) -> None:
        self._bar: tqdm[NoReturn] = tqdm(total=runs, initial=done, bar_format=_BAR, disable=None)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def say(self, line: str, say: Callable[[str], None]) -> None:
        """A line above the bar."""
        self._bar.clear()
        say(line)
        self._bar.refresh()

    def show(self, ended: int, others: Sequence[PlannedRun]) -> None:
        """So many runs have ended, and some of the others are on their way."""
        shares = {run.name: share for run in others if 0 < (share := share_done(run)) < 1}
        self._bar.desc = f"run {ended + 1}/{self._bar.total}"
        self._bar.n = ended + sum(shares.values())
        self._bar.set_postfix_str("; ".join(f"{name} {share:.0%}" for name, share in shares.items()))


def share_done(run: PlannedRun) -> float:
    """How much of its budget a run has used up, 0 to 1, by its metrics."""
    rows, training = read_steps(run.folder.metrics), run.recipe.training
    if not rows:
        return 0.0
    shares = [len(rows) / training.steps]
    if training.environment_steps is not None:
        shares.append(rows[-1].environment_steps_total / training.environment_steps)
    if training.budget_s is not None:
        shares.append(sum(row.seconds_total for row in rows) / training.budget_s)
    return min(1.0, max(shares))
