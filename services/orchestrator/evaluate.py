"""``python -m services.orchestrator.evaluate``: evaluate a policy and write a report, and every transcript."""

import argparse
import asyncio
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import uvloop
from pydantic import ValidationError
from tqdm import tqdm

from services.orchestrator.environments import SetupError
from services.orchestrator.evaluation.plan import PlannedEpisode, planned_episodes, recipe_spec
from services.orchestrator.evaluation.report import EvaluationError, evaluation_report
from services.orchestrator.evaluation.run import play_all
from services.orchestrator.evaluation.setup import open_evaluator
from services.orchestrator.evaluation.transcripts import Transcripts
from services.orchestrator.http import ServerProblemError, ServerUnavailableError
from services.orchestrator.setup import Servers
from shared.files import write_atomically
from shared.prompting import TemplateError, TokenizerError
from shared.recipe import Recipe, RecipeError, load_recipe
from shared.schemas.evaluation import EpisodeFigures, EpisodeReport, EvaluationReport, EvaluationSpec, Transcript
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

_BETWEEN_LINES_S = 30.0
"""How often the bar is drawn where standard error is no terminal, and every drawing stays."""


def main() -> int:
    """Parse the command line, evaluate, write the report and a summary. 0 when it is written, 1 when it can't be."""
    given = _parse()
    configure_logging("evaluation", given.log_level)
    try:
        spec = _spec(given)
        with uvloop_runner() as runner:
            report = runner.run(_evaluate(spec, given))
    except _FAULTS as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # what was finished is in the transcripts
        return 130
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


def _spec(given: argparse.Namespace) -> EvaluationSpec:
    """What a spec file says, or a recipe's evaluation. Raises `RecipeError` and `SetupError`."""
    if given.spec is not None:
        try:
            return EvaluationSpec.model_validate_json(given.spec.read_bytes())
        except (OSError, ValidationError) as error:
            raise SetupError(f"--spec {given.spec} cannot be used: {error}") from error
    recipe = _with_splits(load_recipe(given.recipe), given.split)
    return recipe_spec(recipe, given.episodes, given.seed, given.temperature)


async def _evaluate(spec: EvaluationSpec, given: argparse.Namespace) -> EvaluationReport:
    servers = Servers(given.env_url.split(","), given.policy_url.split(","), given.timeout, given.deadline)
    started = time.monotonic()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with Transcripts(given.transcripts) as transcripts:
        async with open_evaluator(spec, servers) as evaluator:
            planned = list(planned_episodes(spec, evaluator.sources))
            left = [episode for episode in planned if (episode.number, episode.sample) not in transcripts.finished]
            with _Bar(spec, transcripts.finished.values(), given.label, given.quiet) as bar:

                def on_transcript(transcript: Transcript) -> None:
                    transcripts.add(transcript)
                    bar.show(transcript.result)

                await play_all(evaluator, spec, left, on_transcript)
        results = _in_order(planned, transcripts.finished)
    return evaluation_report(spec, results, time.monotonic() - started)


def _in_order(
    planned: Sequence[PlannedEpisode], finished: Mapping[tuple[int, int], EpisodeReport]
) -> list[EpisodeReport]:
    places = [(episode.number, episode.sample) for episode in planned]
    return [finished[place] for place in places if place in finished]


class _Bar:
    """The progress bar, with the success rates so far."""

    def __init__(self, spec: EvaluationSpec, finished: Collection[EpisodeReport], label: str, quiet: bool) -> None:
        """``finished`` were played by an earlier start."""
        self._won: dict[str, list[bool]] = {one.settings.name: [] for one in spec.environments}
        for result in finished:
            self._won[result.environment].append(result.won)
        self._bar = tqdm(
            total=spec.episodes,
            initial=len(finished),
            desc=label,
            unit="episode",
            disable=quiet,
            mininterval=0.1 if sys.stderr.isatty() else _BETWEEN_LINES_S,
        )

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, result: EpisodeReport) -> None:
        """One more episode."""
        self._won[result.environment].append(result.won)
        self._bar.update()
        rates = {name: f"{sum(won) / len(won):.0%}" for name, won in self._won.items() if won}
        alone = len(self._won) == 1
        told = next(iter(rates.values())) if alone else ", ".join(f"{name} {rate}" for name, rate in rates.items())
        self._bar.set_postfix_str(f"success {told}", refresh=False)


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


def _write(report: EvaluationReport, out: Path) -> None:
    write_atomically(out, f"{report.model_dump_json(indent=2)}\n".encode())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.orchestrator.evaluate", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--recipe", type=Path, help="recipe whose environments, prompt, model and evaluation to use")
    what.add_argument("--spec", type=Path, help="evaluation spec (JSON, shared/schemas/evaluation.py): says everything")
    parser.add_argument("--env-url", required=True, help="env servers, separated by commas")
    parser.add_argument("--policy-url", default="", help="policy servers, separated by commas, where one is played by")
    parser.add_argument("--out", required=True, type=Path, help="where the report goes (JSON)")
    parser.add_argument(
        "--transcripts", type=Path, help="where every episode goes (JSON lines); those that are there count as played"
    )
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
    given = parser.parse_args()
    if given.spec is not None and (given.episodes, given.seed, given.temperature, given.split) != (
        None,
        None,
        None,
        [],
    ):
        parser.error("--episodes, --split, --seed and --temperature go with --recipe: a spec says them itself")
    return given


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} episodes are too few to evaluate; give at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
