"""``gagpo compare``: algorithms × seeds under one budget, and a report of how they differ."""

import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gagpo.commands.errors import plain_errors
from gagpo.comparing.estimate import estimates
from gagpo.comparing.export import export_study
from gagpo.comparing.planning import PlannedRun, RunState, StudyFolder, chosen, plan_runs
from gagpo.comparing.running import StudyJob, make_runs
from gagpo.comparing.study import load_study

STUDIES = Path("runs", "studies")

console = Console(highlight=False, soft_wrap=True)


def compare(
    study: Annotated[Path, typer.Argument(help="A study, such as configs/studies/credit-assignment.toml.")],
    out: Annotated[Path | None, typer.Option(help="The study's folder; by default runs/studies/<name>.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="VARIANT", help="Make just this variant's runs.")] = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="Runs at a time; by default the study's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs and what they will take.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Report on what is there.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Also copy the report and every run's raw numbers here, to be kept.")
    ] = None,
) -> None:
    """Train every variant with every seed on this machine, and write tables and plots of how they differ.

    The same command again goes on where it was interrupted: complete runs are kept, runs that the study no longer
    describes are moved aside, failed ones are tried again.
    """
    from gagpo.comparing.report import write_report  # SciPy takes a second to load

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it stops its processes as on Ctrl-C
    with plain_errors("Interrupted; every process was stopped. The same command goes on from the last checkpoints."):
        loaded = load_study(study)
        folder = StudyFolder((out or STUDIES / loaded.name).resolve())
        runs = plan_runs(loaded, folder)
        wanted = chosen(runs, only or [])
        if dry_run:
            _show_plan(runs, wanted, parallel or loaded.parallel)
            return
        if not report_only:
            job = StudyJob(study.resolve(), folder, only or [], parallel or loaded.parallel)
            make_runs(job, wanted, lambda line: console.print(line, markup=False))
        console.print(f"report {write_report(loaded, runs, folder)}")
        if export is not None:
            console.print(f"{export_study(study, runs, folder, export)} runs exported to {export}")
        failed = [run.name for run in wanted if run.state() is RunState.FAILED]
        if failed:
            console.print(f"{len(failed)} of {len(wanted)} runs failed: {', '.join(failed)}", style="red")
            raise typer.Exit(1)


def _show_plan(runs: list[PlannedRun], wanted: list[PlannedRun], parallel: int) -> None:
    expected = estimates(runs)
    table = Table("run", "state", "about", box=None, pad_edge=False)
    left = []
    for run in wanted:
        state, seconds = run.state(), expected[run.name]
        if state is not RunState.COMPLETE:
            left.append(seconds)
        table.add_row(run.name, state.value, "" if state is RunState.COMPLETE or seconds is None else _told(seconds))
    console.print(table)
    known = [seconds for seconds in left if seconds is not None]
    total = f", about {_told(sum(known) / parallel)} with {parallel} at a time" if known else ""
    console.print(f"{len(left)} of {len(wanted)} runs to make{total}")


def _told(seconds: float) -> str:
    """In a unit that suits it: a study meant for GPUs takes years here, and should say so."""
    for unit, length in (("days", 86_400), ("h", 3_600)):
        if seconds > 3 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 60:.1f} min"
