"""``python -m services.orchestrator.evaluate``: evaluate the policy being served and write a report."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvloop
from tqdm import tqdm

from services.orchestrator.environments import SetupError
from services.orchestrator.evaluation import evaluate
from services.orchestrator.evaluation_plan import evaluation_plan
from services.orchestrator.evaluation_report import EvaluatedEpisode, EvaluationError
from services.orchestrator.http import ServerProblemError, ServerUnavailableError
from services.orchestrator.setup import Servers, connect_servers, open_players, task_sources
from shared.files import write_atomically
from shared.prompting import TemplateError, TokenizerError
from shared.recipe import Recipe, RecipeError, load_recipe
from shared.schemas.evaluation import EpisodeFigures, EvaluationReport
from shared.telemetry import configure_logging

_FAULTS = (
    RecipeError,
    SetupError,
    EvaluationError,
    ServerProblemError,
    ServerUnavailableError,
    TemplateError,
    TokenizerError,
)
"""What the user can do something about: told without a traceback."""


def main() -> int:
    """Parse the command line, evaluate, write the report and a summary. 0 when it is written, 1 when it can't be."""
    given = _parse()
    configure_logging("evaluation", given.log_level)
    try:
        recipe = load_recipe(given.recipe)
        with uvloop_runner() as runner:
            report = runner.run(_evaluate(recipe, given))
    except _FAULTS as error:
        print(error, file=sys.stderr)
        return 1
    _write(report, given.out)
    for name, figures in report.environments.items():
        print(f"{name}: {_told(figures)}")
    print(f"policy version {report.policy_version}, report {given.out}")
    return 0


def _told(figures: EpisodeFigures) -> str:
    success, score = figures.success_interval, figures.score_interval
    told = (
        f"{figures.success_rate:.1%} of {figures.episodes} episodes won (95% {success.low:.1%} to {success.high:.1%})"
    )
    if figures.graded:
        told += f", mean score {figures.mean_score:.3f}"
        if score is not None:
            told += f" (95% {score.low:.3f} to {score.high:.3f})"
    return f"{told}, {figures.mean_steps:.1f} steps on average"


def uvloop_runner() -> asyncio.Runner:
    """A runner on uvloop, which takes about a third less of the CPU here."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _evaluate(recipe: Recipe, given: argparse.Namespace) -> EvaluationReport:
    temperature = recipe.evaluation.temperature if given.temperature is None else given.temperature
    servers = Servers(given.env_url.split(","), given.policy_url.split(","), given.timeout, given.deadline)
    recipe = _with_splits(recipe, given.split)
    async with connect_servers(servers) as sets, open_players(recipe, sets, temperature) as players:
        sources = task_sources(recipe, players.descriptions, held_out=True)
        plan = evaluation_plan(recipe, sources, given.episodes, given.seed, temperature)
        seen: dict[str, list[bool]] = {part.environment.name: [] for part in plan.parts}
        with tqdm(total=plan.episodes, desc=given.label, unit="episode", disable=given.quiet) as bar:

            def on_episode(outcome: EvaluatedEpisode) -> None:
                seen[outcome.environment].append(outcome.episode.won)
                bar.update()
                bar.set_postfix_str(_success(seen), refresh=False)

            return await evaluate(players, plan, on_episode)


def _with_splits(recipe: Recipe, given: list[str]) -> Recipe:
    """``NAME`` is the split of every environment, ``ENVIRONMENT=NAME`` of one. Raises `SetupError`."""
    environments = list(recipe.environments)
    for one in given:
        environment, _, split = one.rpartition("=")
        if environment and environment not in {known.name for known in environments}:
            raise SetupError(f"--split {one}: the recipe has {', '.join(known.name for known in environments)}")
        environments = [
            known.model_copy(update={"eval_split": split}) if environment in ("", known.name) else known
            for known in environments
        ]
    return recipe.model_copy(update={"environments": environments})


def _success(seen: Mapping[str, Sequence[bool]]) -> str:
    rates = {name: f"{sum(won) / len(won):.0%}" for name, won in seen.items() if won}
    if len(seen) == 1:
        return f"success {next(iter(rates.values()))}"
    return "success " + ", ".join(f"{name} {rate}" for name, rate in rates.items())


def _write(report: EvaluationReport, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, f"{report.model_dump_json(indent=2)}\n".encode())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.orchestrator.evaluate", description=__doc__)
    parser.add_argument("--recipe", required=True, type=Path, help="recipe whose environments, prompt and model to use")
    parser.add_argument("--env-url", required=True, help="env servers, separated by commas")
    parser.add_argument("--policy-url", required=True, help="policy servers, separated by commas")
    parser.add_argument("--out", required=True, type=Path, help="where the report goes (JSON)")
    parser.add_argument(
        "--episodes", type=_at_least_one, help="how many, shared out by weight; the recipe's by default"
    )
    parser.add_argument(
        "--split",
        action="append",
        default=[],
        metavar="[ENVIRONMENT=]SPLIT",
        help="split of every environment, or of one; the recipe's eval_split by default",
    )
    parser.add_argument("--seed", type=int, help="draws tasks and seeds sampling; the recipe's by default")
    parser.add_argument("--temperature", type=float, help="sampling temperature; the recipe's by default")
    parser.add_argument("--timeout", type=float, default=120.0, help="longest try of a request, in seconds")
    parser.add_argument("--deadline", type=float, default=300.0, help="longest wait for a server, in seconds")
    parser.add_argument("--label", default="evaluation", help="name of the progress bar")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    return parser.parse_args()


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} episodes are too few to evaluate; give at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
