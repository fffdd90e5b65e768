"""``python -m gagpo.comparing.lane``: work through a study's runs one after another, keeping servers up between them.

Several may work on one study: a run that another one is at is passed over. Exit code 0 when nothing is left to do, 128
+ 15 when told to stop. Failed runs are recorded in their folders.
"""

import argparse
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from types import FrameType

import httpx

from gagpo.comparing.planning import PlannedRun, StudyFolder, chosen, claim, plan_runs
from gagpo.comparing.run_record import add_attempt
from gagpo.comparing.server_keeper import ServerKeeper
from gagpo.comparing.study import load_study
from gagpo.redis_server import RedisServerError, start_redis
from gagpo.stack import ServiceDiedError
from gagpo.training.phases import evaluate, train, write_report
from gagpo.training.progress import Silence
from gagpo.training.run_folder import RunFolderError
from gagpo.training.tasks import TaskDataError
from shared.files import write_atomically
from shared.recipe import Recipe
from shared.weights_digest import digest_of_folder

_FAILURES = (ServiceDiedError, RedisServerError, TaskDataError, httpx.HTTPError)
"""What ends a run but not the study."""


def work(runs: Sequence[PlannedRun], folder: StudyFolder, keeper: ServerKeeper) -> None:
    """Make every run that is not complete; one that another process is at is left to it."""
    for run in runs:
        with contextlib.suppress(RunFolderError):  # another process is at it
            claim(run, folder)
            with run.folder.lock():
                if not run.folder.complete:
                    _attempt(run, folder, keeper)


def _attempt(run: PlannedRun, folder: StudyFolder, keeper: ServerKeeper) -> None:
    """Make a run; once more where it was a server that failed it, and record how it ended."""
    for again in (False, True):
        started = time.monotonic()
        try:
            keeper.serve(run.recipe)
            started = time.monotonic()
            _make(run, folder, keeper)
        except _FAILURES as error:
            print(f"{run.name}: {error}", flush=True)
            if keeper.broken() and not again:
                continue
            add_attempt(run.folder, time.monotonic() - started, str(error))
        else:
            add_attempt(run.folder, time.monotonic() - started, None)
        return


def _make(run: PlannedRun, folder: StudyFolder, keeper: ServerKeeper) -> None:
    """One run on servers that are ready, with a Redis of its own, as `gagpo train` would leave it."""
    place, evaluated = run.folder, run.recipe.evaluation.episodes > 0
    redis_folder = place.path / "redis"
    with start_redis(redis_folder) as redis:
        if evaluated and not place.before.exists():
            write_atomically(place.before, _untrained(run, folder, keeper).read_bytes())
        train(keeper.servers, place, redis.url, Silence())
        if evaluated:
            evaluate(keeper.servers, place.recipe, place.after, None)
    write_report(place, run.recipe)
    shutil.rmtree(redis_folder)  # its groups are trained on, its events are in the metrics


def _untrained(run: PlannedRun, folder: StudyFolder, keeper: ServerKeeper) -> Path:
    """The evaluation before training: one for all runs that would have the same."""
    report = folder.evaluations / f"before-{_evaluation_digest(run.recipe)}.json"
    if not report.exists():
        keeper.servers.serve_first_weights()
        evaluate(keeper.servers, run.folder.recipe, report, None)
    return report


def _evaluation_digest(recipe: Recipe) -> str:
    """Equal for recipes whose untrained policies do the same on the same held-out tasks."""
    parts = recipe.model_dump_json(include={"model", "environments", "prompt", "sampling", "evaluation"})
    return sha256(f"{digest_of_folder(recipe.model.path)} {parts}".encode()).hexdigest()[:12]


def main() -> int:
    """Parse the command line and work until nothing is left."""
    given = _parse()
    signal.signal(signal.SIGTERM, _interrupt)
    folder = StudyFolder(given.out.resolve())
    try:
        runs = chosen(plan_runs(load_study(given.study), folder), given.only)
        with ServerKeeper(folder.lane(given.number)) as keeper:
            work(runs, folder, keeper)
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Leave every ``with`` block, as Ctrl-C does."""
    raise KeyboardInterrupt


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gagpo.comparing.lane", description=__doc__)
    parser.add_argument("--study", required=True, type=Path, help="the study file (TOML)")
    parser.add_argument("--out", required=True, type=Path, help="the study's folder")
    parser.add_argument("--number", type=int, default=1, help="of this process among those at work")
    parser.add_argument("--only", action="append", default=[], help="just this variant; may be given again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
