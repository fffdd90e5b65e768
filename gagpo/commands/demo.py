"""``gagpo demo``: the quickest way to see a policy getting better."""

from pathlib import Path
from typing import Annotated

import typer

from gagpo.commands.train import RUNS, train_recipe


def demo(
    environment: Annotated[str, typer.Argument(help="The environment: alfworld or webshop.")] = "alfworld",
    seed: Annotated[int, typer.Option(help="Seeds the tasks, the sampling and the optimizer.")] = 1,
    configs: Annotated[Path, typer.Option(help="Folder of the recipes.")] = Path("configs"),
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = RUNS,
) -> None:
    """Train the small policy for some minutes on two cores, and compare it with what it was on held-out tasks."""
    recipe = configs / f"{environment}-cpu.toml"
    if not recipe.exists():
        known = ", ".join(sorted(path.name.removesuffix("-cpu.toml") for path in configs.glob("*-cpu.toml")))
        if not known:
            where = "run this in the project's folder, or say with --configs where its recipes are"
            raise typer.BadParameter(f"configs = {str(configs)!r} has no recipes; {where}")
        raise typer.BadParameter(
            f"environment = {environment!r} has no demo ({recipe} is not there); there is: {known}"
        )
    train_recipe(recipe, [f"seed={seed}"], None, runs)
