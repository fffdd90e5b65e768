"""One run from start to end: servers, evaluation before, training, evaluation after, report."""

import contextlib
import subprocess
from pathlib import Path

from rich.console import Console

from gagpo.stack import LocalSystem, ServiceDiedError, SystemSettings
from gagpo.stack.system import redis_from_environment
from gagpo.training.outcome import outcome_lines
from gagpo.training.plot import plot_learning_curve
from gagpo.training.progress import StepBars, follow
from gagpo.training.records import read_metrics
from gagpo.training.run_folder import RunFolder
from gagpo.training.summary import Summary, summarise
from gagpo.training.tasks import data_folders
from shared.buffer import EventReader
from shared.recipe import Recipe
from shared.schemas.evaluation import EvaluationReport

console = Console(highlight=False, soft_wrap=True)


def train_locally(folder: RunFolder, recipe: Recipe) -> Summary:
    """Train a recipe in its folder, from wherever an earlier process left it, and report.

    Raises `ServiceDiedError` when a service fails, `RunFolderError` when another process trains there, and
    `TaskDataError` when the recipe's tasks cannot be generated. Whatever happens, every process is stopped.
    """
    with folder.lock(), LocalSystem(_settings(folder, recipe)) as system:
        console.print(f"run {folder.path}")
        with console.status("starting Redis, the env server and vLLM (about a minute) …") as status:
            system.start_servers(lambda name: status.update(f"waiting for the {name} …"))
        if recipe.evaluation.episodes and not folder.before.exists():
            _evaluate(system, folder.before, "held-out, before")
        _train(system, folder, recipe)
        if recipe.evaluation.episodes:
            _evaluate(system, folder.after, "held-out, after")
    return _report(folder, recipe)


def _settings(folder: RunFolder, recipe: Recipe) -> SystemSettings:
    return SystemSettings(
        job=folder.job,
        recipe_file=folder.recipe,
        recipe=recipe,
        run_folder=folder.path,
        redis_url=redis_from_environment(),
        environment=data_folders(recipe),
    )


def _evaluate(system: LocalSystem, out: Path, label: str) -> None:
    evaluation = subprocess.run([*system.evaluation_argv(out), "--label", label], check=False)
    if evaluation.returncode != 0:
        raise ServiceDiedError(f"the evaluation ended with exit code {evaluation.returncode}; its message is above")


def _train(system: LocalSystem, folder: RunFolder, recipe: Recipe) -> None:
    """Follow the training until the trainer has ended and its last event is shown."""
    with console.status("starting the trainer and the orchestrator …"):
        system.start_training()
    bars = StepBars(recipe.training.steps, recipe.rollout.groups_per_step, done=len(read_metrics(folder.metrics)))
    with contextlib.closing(EventReader(system.redis_url, folder.job)) as reader, contextlib.closing(bars):
        for event in follow(reader, _last_event(reader)):
            if event is not None:
                bars.show(event)
                continue
            bars.refresh()
            system.check()
            if system.trainer_exit_code() == 0:
                return


def _last_event(reader: EventReader) -> str:
    """Where to go on: what an earlier process has shown is not shown again."""
    position = "0"
    while events := reader.read(position):
        position = events[-1].id
    return position


def _report(folder: RunFolder, recipe: Recipe) -> Summary:
    metrics = read_metrics(folder.metrics)
    before, after = _evaluation(folder.before), _evaluation(folder.after)
    plot_learning_curve(metrics, before, after, f"{recipe.name}, seed {recipe.seed}", folder.curve)
    summary = summarise(folder.job, recipe.name, recipe.seed, metrics, before, after)
    summary.save(folder.summary)
    for line in outcome_lines(before, after):
        console.print(line)
    console.print(f"summary         {folder.summary}\nlearning curve  {folder.curve}")
    return summary


def _evaluation(file: Path) -> EvaluationReport | None:
    return EvaluationReport.model_validate_json(file.read_bytes()) if file.exists() else None
