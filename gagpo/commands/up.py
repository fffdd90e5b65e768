"""``gagpo up``: the whole system as processes of this machine, until Ctrl-C."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gagpo.client import Client
from gagpo.client.server import DEFAULT_SERVER
from gagpo.commands.errors import plain_errors
from gagpo.ports import check_port
from gagpo.stack import LocalSystem, SystemSettings
from gagpo.stack.system import redis_from_environment
from gagpo.training.memory import check_memory
from gagpo.training.tasks import data_folders
from shared.recipe import load_document, load_recipe

_WATCH_S = 0.5

console = Console(highlight=False, soft_wrap=True)


def up(
    recipe: Annotated[Path, typer.Argument(help="The recipe to train.")] = Path("configs/alfworld-cpu.toml"),
    training: Annotated[
        bool, typer.Option("--train/--servers-only", help="Train the recipe, or wait for `gagpo job submit`.")
    ] = True,
    trainer_port: Annotated[int, typer.Option(help="Port of the trainer's job API.")] = 8000,
    env_port: Annotated[int, typer.Option(help="Port of the env server.")] = 8001,
    policy_port: Annotated[int, typer.Option(help="Port of the policy server.")] = 8002,
    orchestrator_port: Annotated[int, typer.Option(help="Port of the orchestrator.")] = 8003,
    folder: Annotated[Path | None, typer.Option(help="Keep logs, Redis and checkpoints here.")] = None,
) -> None:
    """Start Redis, env server, policy server, orchestrator and trainer, and stop them all on Ctrl-C.

    The recipe is submitted to the trainer as a job, and `gagpo job` follows it or submits more for the same model.
    The env server serves every environment there is, ALFWorld and WebShop among them; GAGPO_ENV_SERVE limits it.
    Started again with the same --folder, an unfinished job goes on.
    """
    with plain_errors("Stopped."), tempfile.TemporaryDirectory(prefix="gagpo-up-") as temporary:
        loaded = load_recipe(recipe)
        check_memory(loaded, training=training)
        check_port(trainer_port, "trainer", "--trainer-port")
        check_port(env_port, "env server", "--env-port")
        check_port(policy_port, "policy server", "--policy-port")
        check_port(orchestrator_port, "orchestrator", "--orchestrator-port")
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
            trainer_port=trainer_port,
        )
        with LocalSystem(settings) as system:
            _run(system, settings if training else None)


def _run(system: LocalSystem, job: SystemSettings | None) -> None:
    with console.status("starting …") as status:
        system.start_servers(lambda name: status.update(f"waiting for the {name} …"))
        system.start_job_services(lambda name: status.update(f"waiting for the {name} …"))
    console.print(_table(system))
    if job is not None:
        with Client(system.trainer_url) as client:
            submitted = client.submit(load_document(job.recipe_file), job.job)
        console.print(f"job {submitted.id} is {submitted.state.value}: {_follow(system, submitted.id)}")
    else:
        console.print(f"gagpo job submit {_server(system)} RECIPE trains for the same model.")
    console.print(f"The dashboard is at {system.trainer_url}/")
    console.print("Ctrl-C stops everything.")
    while True:
        system.check()
        time.sleep(_WATCH_S)


def _follow(system: LocalSystem, job: str) -> str:
    return f"gagpo job watch {job} {_server(system)}".rstrip()


def _server(system: LocalSystem) -> str:
    return "" if system.trainer_url == DEFAULT_SERVER else f"--server {system.trainer_url}"


def _table(system: LocalSystem) -> Table:
    urls = {
        "env-server": system.env_url,
        "policy-server": system.policy_url,
        "trainer": system.trainer_url,
        "orchestrator": system.orchestrator_url,
    }
    table = Table("service", "pid", "URL")
    for name, pid in system.pids().items():
        table.add_row(name, str(pid), urls[name])
    table.add_row("redis", "", system.redis_url)
    return table
