"""``gagpo train``: run a recipe on this machine, every service as a process of its own."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gagpo.commands.errors import plain_errors
from gagpo.training import claim_run_folder, train_locally
from shared.recipe import load_recipe

RUNS = Path("runs")

console = Console(highlight=False, soft_wrap=True)


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as configs/alfworld-cpu.toml.")],
    seed: Annotated[int | None, typer.Option(help="Replace the recipe's seed.")] = None,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key: rollout.group_size=4")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run; by default the recipe's name and seed.")] = None,
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = RUNS,
) -> None:
    """Train on this machine: Redis, env server, policy server, orchestrator and trainer, each a process.

    The same command again goes on where an interrupted run stopped. REDIS_URL, ALFWORLD_DATA and WEBSHOP_DATA are
    used where set.
    """
    changes = list(override or [])
    if seed is not None:
        changes.append(f"seed={seed}")
    train_recipe(recipe, changes, run, runs)


def train_recipe(recipe: Path, changes: list[str], run: str | None, runs: Path) -> None:
    """Train a recipe and report."""
    with plain_errors("Interrupted; every process was stopped. The same command goes on from the last checkpoint."):
        loaded = load_recipe(recipe, changes)
        folder = claim_run_folder(loaded, runs, run)
        if folder.complete:
            console.print(f"{folder.path} is complete already; {folder.summary} holds its figures.")
            return
        train_locally(folder, loaded)
