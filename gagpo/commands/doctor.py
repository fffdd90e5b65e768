"""``gagpo doctor``: is this machine able to train, and if not, what is to be done?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gagpo.doctor import Finding, Verdict, check_parity, quick_checks

_MARK = {Verdict.OK: "[green]ok  [/green]", Verdict.WARNING: "[yellow]warn[/yellow]", Verdict.FAILED: "[red]FAIL[/red]"}

console = Console(highlight=False, soft_wrap=True)


def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the log-prob parity (about a minute).")] = False,
    model: Annotated[Path, typer.Option(help="Model folder for the parity check.")] = Path("configs/small-policy"),
) -> None:
    """Check this machine: versions, memory, data, Redis, ports, and the log-prob parity of server and trainer.

    Exits with 1 when something will not work; every fault comes with its remedy.
    """
    findings = []
    for finding in quick_checks():
        _show(finding)
        findings.append(finding)
    if not quick:
        with console.status("starting a policy server for the log-prob parity …"):
            finding = check_parity(model)
        _show(finding)
        findings.append(finding)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    console.print(f"{_MARK[finding.verdict]} {finding.check}: ", end="")
    console.print(finding.message, markup=False)
    if finding.remedy:
        console.print(f"       → {finding.remedy}", markup=False)
