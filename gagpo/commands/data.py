"""``gagpo data``: download, generate and look at the environments' tasks.

The work is done by each environment's own module, in a process of its own: it may need packages that a client
does not have.
"""

import os
import sys
from typing import Annotated

import typer

ENVIRONMENTS = {"alfworld": "services.env_server.environments.alfworld"}

app = typer.Typer(no_args_is_help=True, help="Download, generate and look at tasks.")

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command("alfworld", context_settings=_PASS_ON)
def download_alfworld(context: typer.Context) -> None:
    """Download ALFWorld's official games, resumable and checksummed. Options: gagpo data alfworld --help"""
    _hand_over("alfworld", ["download", *context.args])


@app.command("generate", context_settings=_PASS_ON)
def generate(
    context: typer.Context, environment: Annotated[str, typer.Argument(help="The environment: alfworld.")]
) -> None:
    """Generate tasks. Options: gagpo data generate alfworld --help"""
    _hand_over(environment, ["generate", *context.args])


@app.command("info", context_settings=_PASS_ON)
def info(
    context: typer.Context, environment: Annotated[str, typer.Argument(help="The environment: alfworld.")]
) -> None:
    """Say what a folder of tasks holds: gagpo data info alfworld [FOLDER]"""
    _hand_over(environment, ["info", *context.args])


def module_of(environment: str) -> str:
    """The module that makes an environment's data. Raises `typer.BadParameter` for an unknown environment."""
    if environment not in ENVIRONMENTS:
        known = ", ".join(ENVIRONMENTS)
        raise typer.BadParameter(f"environment = {environment!r} has no data here; there is: {known}")
    return ENVIRONMENTS[environment]


def _hand_over(environment: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", module_of(environment), *arguments])
