"""``gagpo job``: training jobs on a remote trainer (docs/jobs.md)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gagpo.client import Client, JobError, When
from gagpo.commands.credit_output import group_text, step_text
from gagpo.commands.errors import plain_errors
from gagpo.commands.job_output import byte_bar, job_list, job_text
from gagpo.training.outcome import outcome_lines
from gagpo.watching import AllEpisodes, LineView, LiveView, OneEpisode, Standing, View, outcome_line
from shared.recipe import load_document, load_recipe
from shared.schemas.evaluation import EvaluationReport
from shared.schemas.job import JobList, JobState
from shared.telemetry import readable

EXIT_CODES = {JobState.COMPLETED: 0, JobState.FAILED: 1, JobState.CANCELLED: 3}
"""What ``watch`` ends with."""

app = typer.Typer(no_args_is_help=True, help="Training jobs on a remote trainer: gagpo job submit RECIPE --watch")

out = Console(highlight=False, soft_wrap=True)
"""What was asked for, and nothing else: it may go into a pipe."""
err = Console(stderr=True, highlight=False, soft_wrap=True)

Server = Annotated[
    str | None, typer.Option(help="URL of the trainer.", envvar="GAGPO_SERVER", show_default="http://127.0.0.1:8000")
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]


@app.command()
def submit(
    recipe: Annotated[
        Path, typer.Argument(help='A recipe. Its model.path is a name or folder on the servers: "small-policy".')
    ],
    server: Server = None,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key: rollout.group_size=4")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--id", help="The job's id; made from the recipe's name and the time otherwise.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
) -> None:
    """Queue a recipe on a trainer, and print the job's id.

    The recipe is checked here first. The same --id and recipe again give the job there is.
    """
    changes = list(override or [])
    with _client(server) as client:
        load_recipe(recipe, changes)  # says what is wrong before anything is sent
        submitted = client.submit(load_document(recipe, changes), job)
        out.print(submitted.id)
        if watch:
            _watch(client, submitted.id)
        else:
            err.print(f"{submitted.state.value}; follow it with: gagpo job watch {submitted.id}", markup=False)


@app.command("list")
def list_jobs(server: Server = None, as_json: AsJson = False) -> None:
    """Every job, the newest first."""
    with _client(server) as client:
        jobs = client.list()
    if as_json:
        out.print(JobList(jobs=list(jobs)).model_dump_json(indent=2), markup=False)
    else:
        out.print(job_list(jobs), markup=False)


@app.command()
def show(job: JobId, server: Server = None, as_json: AsJson = False) -> None:
    """One job: its state, its latest metrics, its evaluations, its checkpoints and its recipe."""
    with _client(server) as client:
        detail = client.get(job)
        if as_json:
            out.print(detail.model_dump_json(indent=2), markup=False)
            return
        evaluations = [_evaluation(client, job, "before"), _evaluation(client, job, "after")]
        out.print(job_text(detail, client.checkpoints(job), outcome_lines(*evaluations)), markup=False)


@app.command()
def watch(job: JobId, server: Server = None) -> None:
    """Follow a job to its end: exit code 0 when it completed, 1 when it failed, 3 when it was cancelled.

    Ctrl-C leaves the job running.
    """
    with _client(server) as client:
        _watch(client, job)


@app.command()
def turns(
    job: JobId,
    server: Server = None,
    every: Annotated[bool, typer.Option("--all", help="A line for each turn of every running episode.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of the API's JSON for each record.")] = False,
) -> None:
    """Watch episodes turn by turn while they are played: what is seen, what the policy does, what comes of it.

    Shows one episode from its beginning to its end, then the newest one that is being played. A queued job is waited
    for. Ctrl-C leaves the job running. Of a job that is over, see: gagpo job credit JOB --group G
    """
    view = AllEpisodes(out) if every else OneEpisode(out)
    with _client(server) as client, plain_errors(f"The job goes on. Look again with: gagpo job turns {job}"):
        for record in client.follow_turns(job):
            if as_json:
                out.print(record.model_dump_json(), markup=False)
            else:
                view.show(record)
        err.print(f"{job} is over: nothing is played for it any more", markup=False)


@app.command()
def logs(
    job: JobId,
    server: Server = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    tail: Annotated[int, typer.Option(min=1, help="Begin with so many of the last lines.")] = 200,
) -> None:
    """What a job's trainer has written."""
    with _client(server) as client:
        if not follow:
            for line in client.logs(job, tail).splitlines():
                out.print(readable(line), markup=False)
            return
        for line in client.follow_logs(job, tail):
            out.print(readable(line), markup=False)


@app.command()
def credit(
    job: JobId,
    server: Server = None,
    step: Annotated[int | None, typer.Option(help="Training step, from 0; the newest that is kept otherwise.")] = None,
    group: Annotated[int | None, typer.Option(help="Show every step of this group.")] = None,
    as_json: AsJson = False,
) -> None:
    """Where a training step's credit went: its groups, or with --group the steps of one."""
    with _client(server) as client:
        kept = client.credit_steps(job)
        if not kept:
            raise JobError(f"{job} has kept no credit (yet): its recipe's tracking.credit_steps says of how many steps")
        chosen = kept[-1] if step is None else step
        if group is None:
            of_step = client.credit(job, chosen)
            out.print(of_step.model_dump_json(indent=2) if as_json else step_text(of_step, kept), markup=False)
        else:
            of_group = client.credit_group(job, chosen, group)
            out.print(of_group.model_dump_json(indent=2) if as_json else group_text(of_group), markup=False)


@app.command()
def cancel(job: JobId, server: Server = None) -> None:
    """Stop a job, or take it out of the queue. Its checkpoints are kept, and `gagpo job resume` goes on from them."""
    with _client(server) as client:
        out.print(client.cancel(job).state.value)


@app.command()
def resume(job: JobId, server: Server = None) -> None:
    """Queue a failed or cancelled job again; it goes on from its last checkpoint."""
    with _client(server) as client:
        out.print(client.resume(job).state.value)


@app.command()
def delete(job: JobId, server: Server = None) -> None:
    """Forget a job that is over, and delete its files on the server, checkpoints included: there is no way back."""
    with _client(server) as client:
        client.delete(job)
        err.print(f"{job} is deleted", markup=False)


@app.command()
def download(
    job: JobId,
    server: Server = None,
    version: Annotated[int | None, typer.Option(help="Which policy version; the newest there is otherwise.")] = None,
    into: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The folder to make; <job>-v<version> otherwise.")
    ] = None,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Leave out what only training on needs: a third of the bytes.")
    ] = False,
) -> None:
    """Download a checkpoint: a Hugging Face folder that recipes, vLLM and Transformers load."""
    with _client(server) as client, byte_bar(err) as progress:
        folder = client.download(job, into, version, trainer_state=not weights_only, progress=progress)
    out.print(str(folder), markup=False)


@contextlib.contextmanager
def _client(server: str | None) -> Iterator[Client]:
    """A client, with expected errors as plain messages; a server that is no URL is an error of usage."""
    try:
        client = Client(server)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with plain_errors("Stopped."), client:
        yield client


def _evaluation(client: Client, job: str, when: When) -> EvaluationReport | None:
    try:
        return client.evaluation(job, when)
    except JobError as error:
        if error.type == "/problems/no-evaluation":
            return None
        raise


def _watch(client: Client, job: str) -> None:
    """Show a job until it is over, and exit as it ended."""
    standing = Standing.of(client.get(job))
    with plain_errors(f"The job goes on. Look again with: gagpo job watch {job}"):
        with _view(standing) as view:
            for event in client.watch(job):
                standing.take(event)
                view.show(event, standing)
        ended = client.get(job)
    out.print(outcome_line(ended), markup=False)
    raise typer.Exit(EXIT_CODES.get(ended.state, 0))  # 0 also where somebody has resumed it within the moment


def _view(standing: Standing) -> View:
    # Without soft wrapping: a picture that is drawn over itself has to know how many lines it takes.
    return LiveView(Console(highlight=False), standing) if out.is_terminal else LineView(out)
