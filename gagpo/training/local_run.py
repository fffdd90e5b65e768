"""One run from start to end: servers, evaluation before, training, evaluation after, report."""

from rich.console import Console

from gagpo.stack import LocalServers, ServerSettings, redis_from_environment, weights_pointer
from gagpo.training.memory import check_memory
from gagpo.training.outcome import outcome_lines
from gagpo.training.phases import evaluate, read_evaluation, train, write_report
from gagpo.training.progress import StepBars
from gagpo.training.records import read_metrics
from gagpo.training.run_folder import RunFolder
from gagpo.training.summary import Summary
from gagpo.training.tasks import data_folders
from shared.recipe import Recipe, RecipeError
from shared.tracking_checks import tracking_faults, unreachable_trackers

console = Console(highlight=False, soft_wrap=True)


def train_locally(folder: RunFolder, recipe: Recipe) -> Summary:
    """Train a recipe in its folder, from wherever an earlier process left it, and report.

    Raises `ServiceDiedError` when a service fails, `RunFolderError` when another process trains there, `RecipeError`
    for a tracker that can't be used, `ModelTooLargeError`, and `TaskDataError` when the recipe's tasks cannot be
    generated. Whatever happens, every process is stopped.
    """
    check_trackers(recipe)
    check_memory(recipe)
    settings = ServerSettings.of(recipe, data_folders(recipe))
    pointer = weights_pointer(folder.path)
    with (
        folder.lock(),
        LocalServers(settings, folder.path, redis_url=redis_from_environment(), weights_pointer=pointer) as servers,
    ):
        console.print(f"run {folder.path}")
        with console.status("starting Redis, the env server and vLLM (about a minute) …") as status:
            servers.start(lambda name: status.update(f"waiting for the {name} …"))
        if recipe.evaluation.episodes and not folder.before.exists():
            evaluate(servers, folder.recipe, folder.before, "held-out, before")
        done = len(read_metrics(folder.metrics))
        train(servers, folder, servers.redis_url, StepBars(recipe.training.steps, recipe.rollout.groups_per_step, done))
        if recipe.evaluation.episodes:
            evaluate(servers, folder.recipe, folder.after, "held-out, after")
    return _report(folder, recipe)


def check_trackers(recipe: Recipe) -> None:
    """Raise `RecipeError` for trackers that can't be used here: told now, not after the evaluation before training."""
    if faults := [*tracking_faults(recipe.tracking), *unreachable_trackers(recipe.tracking)]:
        raise RecipeError("\n".join(map(str, faults)))


def _report(folder: RunFolder, recipe: Recipe) -> Summary:
    summary = write_report(folder, recipe)
    for line in outcome_lines(read_evaluation(folder.before), read_evaluation(folder.after)):
        console.print(line)
    console.print(f"summary         {folder.summary}\nlearning curve  {folder.curve}")
    return summary
