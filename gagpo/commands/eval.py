"""``gagpo eval``: any policy on any environment, and two evaluations compared."""

import json
import signal
import tomllib
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Console
from typer.core import TyperGroup

from gagpo.commands.errors import plain_errors
from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.folder import read_report
from gagpo.evaluating.local_run import evaluate_policy
from gagpo.evaluating.policy import EndpointOptions, find_policy
from gagpo.evaluating.report_text import figure_table, task_type_table
from gagpo.evaluating.request import EvaluationRequest
from shared.recipe import load_recipe
from shared.schemas.environment import InfoValue
from shared.schemas.evaluation import EndpointApi

console = Console(highlight=False, soft_wrap=True)

_RUN = "run"


class _PolicyFirst(TyperGroup):
    """``gagpo eval POLICY`` is ``gagpo eval run POLICY``: all but ``diff`` is a policy, or an option."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # private there
        known = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if known else [_RUN, *args])


app = typer.Typer(cls=_PolicyFirst, help="Evaluate a policy: gagpo eval POLICY; compare two: gagpo eval diff A B")


@app.command(_RUN, no_args_is_help=True)
def run(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help="A run's folder (its newest checkpoint), a checkpoint's or a model's; random; expert; or the URL of "
            "an OpenAI-compatible endpoint.",
        ),
    ],
    recipe: Annotated[
        Path | None, typer.Option(help="Environments, prompt and sampling; by default the run's own recipe.")
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the recipe.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--env", help="The environment, without a recipe; or one of the recipe's.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split; by default the recipe's eval_split.")] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Tasks of each environment; the recipe's evaluation.episodes, or 128.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each task: pass@k up to that k.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Draws the tasks and seeds the sampling.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Sampling temperature; else the recipe's, or 1.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Step limit of an episode.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the environment: reward=success")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Prompt template; else the recipe's, or think-action for an endpoint.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the reports; by default evaluations/<what is played>.")
    ] = None,
    env_url: Annotated[str | None, typer.Option(help="Running env servers; one is started otherwise.")] = None,
    policy_url: Annotated[str | None, typer.Option(help="Running policy servers; one is started otherwise.")] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Episodes in flight at once.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name at the endpoint.")] = None,
    api: Annotated[EndpointApi, typer.Option(help="Route of the endpoint.")] = EndpointApi.CHAT,
    key_variable: Annotated[
        str, typer.Option("--key", metavar="VARIABLE", help="Environment variable with the endpoint's API key.")
    ] = "OPENAI_API_KEY",
    body: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=JSON", help="A field of the endpoint's requests; null leaves one of ours out."),
    ] = None,
) -> None:
    """Evaluate a policy on tasks that the seed draws, and write report.json, report.md and transcripts.jsonl.

    The same command again goes on where it was interrupted. gagpo eval diff A B compares two of them.

    Try:

    gagpo eval runs/alfworld-cpu-s1 --samples 4

    gagpo eval configs/small-policy --recipe configs/alfworld-cpu.toml --tasks 64

    gagpo eval expert --env alfworld --split valid_unseen

    gagpo eval random --recipe configs/webshop-cpu.toml

    gagpo eval https://api.openai.com/v1 --model NAME --env webshop --split synthetic_test --tasks 20
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it stops its processes as on Ctrl-C
    with plain_errors("Interrupted; every process was stopped. The same command goes on from the finished episodes."):
        found = find_policy(policy, EndpointOptions(model, api, key_variable, _fields(body or [])))
        chosen = recipe or found.recipe
        request = EvaluationRequest(
            environment=environment,
            split=split,
            tasks=tasks,
            samples=samples,
            seed=seed,
            temperature=temperature,
            concurrency=concurrency,
            prompt=prompt,
            max_steps=max_steps,
            options=_options(option or []),
            out=out,
            env_url=env_url,
            policy_url=policy_url,
        )
        loaded = None if chosen is None else load_recipe(chosen, override or [])
        report, folder = evaluate_policy(request, found, loaded, console)
        for name, figures in report.environments.items():
            console.print(f"\n{name}, {figures.split}", markup=False)
            console.print(task_type_table(figures).rich())
            console.print(figure_table(figures).rich())
        console.print(f"\nreport       {folder.markdown}\ntranscripts  {folder.transcripts}", markup=False)


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(metavar="A", help="An evaluation's folder, or a report.json.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="The one to compare with it.")],
    common_only: Annotated[
        bool, typer.Option("--common-only", help="Compare the tasks that both have, where they differ.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for diff.json and diff.md.")] = None,
) -> None:
    """What B does better or worse than A on the same tasks, and whether that could be chance.

    Try:

    gagpo eval diff evaluations/random evaluations/small --out evaluations/small-against-random

    gagpo eval diff runs/alfworld-cpu-s1/evaluation-before.json runs/alfworld-cpu-s1/evaluation-after.json
    """
    from gagpo.evaluating.diff import compare_reports  # SciPy takes a second to load
    from gagpo.evaluating.diff_text import diff_tables, write_diff

    with plain_errors("Interrupted."):
        made = compare_reports(read_report(one), read_report(other), common_only=common_only)
        if out is not None:
            write_diff(made, out)
        for line in diff_tables(made):
            console.print(line)
        if out is not None:
            console.print(f"\nwritten to {out}", markup=False)


def _options(given: list[str]) -> dict[str, InfoValue]:
    """``NAME=VALUE``, the value as TOML; what is none is a text. Raises `EvaluationError`."""
    options: dict[str, InfoValue] = {}
    for one in given:
        name, value = _split(one, "--option", "NAME=VALUE")
        try:
            options[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            options[name] = value
    return options


def _fields(given: list[str]) -> dict[str, JsonValue]:
    """``FIELD=JSON``. Raises `EvaluationError`."""
    fields: dict[str, JsonValue] = {}
    for one in given:
        name, value = _split(one, "--body", "FIELD=JSON")
        try:
            fields[name] = json.loads(value)
        except json.JSONDecodeError as error:
            raise EvaluationError(f"--body {one}: {value!r} is not JSON ({error}); a text takes quotes") from error
    return fields


def _split(given: str, flag: str, form: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name:
        raise EvaluationError(f"{flag} {given}: write it as {form}")
    return name, value
