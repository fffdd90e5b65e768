"""``gagpo data``: download, generate and look at the environments' tasks.

The work is done by each environment's own module, in a process of its own: it may need packages that a client
does not have.
"""

from typing import Annotated

import typer

from gagpo.commands.hand_over import PASS_ON, hand_over

ENVIRONMENTS = {
    "alfworld": "services.env_server.environments.alfworld",
    "webshop": "services.env_server.environments.webshop",
}

Environment = Annotated[str, typer.Argument(help="The environment: alfworld or webshop.")]

app = typer.Typer(no_args_is_help=True, help="Download, generate and look at tasks.")


@app.command("alfworld", context_settings=PASS_ON)
def download_alfworld(context: typer.Context) -> None:
    """Download ALFWorld's official games, resumable and checksummed. Options: gagpo data alfworld --help"""
    hand_over(module_of("alfworld"), ["download", *context.args])


@app.command("webshop", context_settings=PASS_ON)
def download_webshop(context: typer.Context) -> None:
    """Download WebShop's official product files, resumable and checksummed. Options: gagpo data webshop --help"""
    hand_over(module_of("webshop"), ["download", *context.args])


@app.command("build", context_settings=PASS_ON)
def build(context: typer.Context, environment: Environment) -> None:
    """Convert official files into what the server reads: gagpo data build webshop FOLDER --out DIR"""
    hand_over(module_of(environment), ["build", *context.args])


@app.command("generate", context_settings=PASS_ON)
def generate(context: typer.Context, environment: Environment) -> None:
    """Generate tasks. Options: gagpo data generate alfworld --help, gagpo data generate webshop --help"""
    hand_over(module_of(environment), ["generate", *context.args])


@app.command("info", context_settings=PASS_ON)
def info(context: typer.Context, environment: Environment) -> None:
    """Say what a folder of tasks holds: gagpo data info alfworld|webshop [FOLDER]"""
    hand_over(module_of(environment), ["info", *context.args])


def module_of(environment: str) -> str:
    """The module that makes an environment's data. Raises `typer.BadParameter` for an unknown environment."""
    if environment not in ENVIRONMENTS:
        known = ", ".join(ENVIRONMENTS)
        raise typer.BadParameter(f"environment = {environment!r} has no data here; there is: {known}")
    return ENVIRONMENTS[environment]
