"""The phases of a run on servers that are ready: an evaluation, the training, and the files of its report."""

import contextlib
import subprocess
import tempfile
from pathlib import Path

from gagpo.stack import LocalJob, LocalServers, ServiceDiedError
from gagpo.training.plot import plot_learning_curve
from gagpo.training.progress import StepWatcher, follow
from gagpo.training.records import read_metrics
from gagpo.training.run_folder import RunFolder
from gagpo.training.summary import Summary, summarise
from shared.buffer import EventReader
from shared.exit_status import how_it_ended
from shared.recipe import Recipe
from shared.schemas.evaluation import EvaluationReport


def evaluate(servers: LocalServers, recipe_file: Path, out: Path, label: str | None) -> None:
    """Evaluate the policy that is being served. Without a ``label`` nothing is shown.

    Raises `ServiceDiedError` when the evaluation fails, or a server under it.
    """
    argv = servers.evaluation_argv(recipe_file, out)
    if label is not None:
        code, said = servers.run([*argv, "--label", label]), "its message is above"
    else:
        with tempfile.TemporaryFile() as errors:
            code = servers.run([*argv, "--quiet"], output=subprocess.DEVNULL, errors=errors)
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
    if code != 0:
        raise ServiceDiedError(f"the evaluation {how_it_ended(code)}; {said}")


def train(servers: LocalServers, folder: RunFolder, redis_url: str, watcher: StepWatcher) -> None:
    """Train in a run's folder, from its last checkpoint, until the trainer has ended and its last event is shown.

    Raises `ServiceDiedError` when a service fails. Afterwards the policy server holds the run's weights, even where
    there was nothing left to train.
    """
    with LocalJob(servers, folder.recipe, folder.path, redis_url) as job:
        job.start()
        with contextlib.closing(EventReader(redis_url, folder.job)) as reader, contextlib.closing(watcher):
            for event in follow(reader, _last_event(reader)):
                if event is not None:
                    watcher.show(event)
                    continue
                watcher.refresh()
                job.check()
                if job.trainer_exit_code() == 0:
                    return


def _last_event(reader: EventReader) -> str:
    """Where to go on: what an earlier process has shown is not shown again."""
    position = "0"
    while events := reader.read(position):
        position = events[-1].id
    return position


def write_report(folder: RunFolder, recipe: Recipe) -> Summary:
    """Write a finished run's learning curve and, last, the summary that says that it is complete."""
    metrics = read_metrics(folder.metrics)
    before, after = read_evaluation(folder.before), read_evaluation(folder.after)
    plot_learning_curve(metrics, before, after, f"{recipe.name}, seed {recipe.seed}", folder.curve)
    summary = summarise(folder.job, recipe.name, recipe.seed, metrics, before, after)
    summary.save(folder.summary)
    return summary


def read_evaluation(file: Path) -> EvaluationReport | None:
    """The report in a file; None where there is none."""
    return EvaluationReport.model_validate_json(file.read_bytes()) if file.exists() else None
