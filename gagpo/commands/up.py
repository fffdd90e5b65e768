"""``gagpo up``: the whole system as processes of this machine, until Ctrl-C."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gagpo.commands.errors import plain_errors
from gagpo.stack import LocalSystem, SystemSettings
from gagpo.stack.system import redis_from_environment
from gagpo.training.tasks import data_folders
from shared.recipe import load_recipe

_WATCH_S = 0.5

console = Console(highlight=False, soft_wrap=True)


def up(
    recipe: Annotated[Path, typer.Argument(help="The recipe to train.")] = Path("configs/alfworld-cpu.toml"),
    training: Annotated[
        bool, typer.Option("--train/--servers-only", help="Train the recipe, or start only the servers.")
    ] = True,
    env_port: Annotated[int, typer.Option(help="Port of the env server.")] = 8001,
    policy_port: Annotated[int, typer.Option(help="Port of the policy server.")] = 8002,
    orchestrator_port: Annotated[int, typer.Option(help="Port of the orchestrator.")] = 8003,
    folder: Annotated[Path | None, typer.Option(help="Keep logs, Redis and checkpoints here.")] = None,
) -> None:
    """Start Redis, env server, policy server, orchestrator and trainer, and stop them all on Ctrl-C.

    The env server serves every environment there is, ALFWorld and WebShop among them; GAGPO_ENV_SERVE limits it.
    The servers stay up when training is done, so that they can be looked at: their URLs are printed.
    """
    with plain_errors("Stopped."), tempfile.TemporaryDirectory(prefix="gagpo-up-") as temporary:
        loaded = load_recipe(recipe)
        settings = SystemSettings(
            job=f"up-{loaded.name}",
            recipe_file=recipe.resolve(),
            recipe=loaded,
            run_folder=(folder or Path(temporary)).resolve(),
            redis_url=redis_from_environment(),
            environment=data_folders(loaded),
            serve_all=True,
            env_port=env_port,
            policy_port=policy_port,
            orchestrator_port=orchestrator_port,
        )
        with LocalSystem(settings) as system:
            _run(system, training)


def _run(system: LocalSystem, training: bool) -> None:
    with console.status("starting …") as status:
        system.start_servers(lambda name: status.update(f"waiting for the {name} …"))
        if training:
            system.start_training(lambda name: status.update(f"waiting for the {name} …"))
    console.print(_table(system, training))
    console.print("Ctrl-C stops everything.")
    while True:
        system.check()
        time.sleep(_WATCH_S)


def _table(system: LocalSystem, training: bool) -> Table:
    urls = {"env-server": system.env_url, "policy-server": system.policy_url}
    if training:
        urls |= {"orchestrator": system.orchestrator_url, "trainer": ""}
    table = Table("service", "pid", "URL")
    for name, pid in system.pids().items():
        table.add_row(name, str(pid), urls[name])
    table.add_row("redis", "", system.redis_url)
    return table
