"""``gagpo plan``: how long a training step would take on given machines, and what to add next."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from gagpo.commands.errors import plain_errors
from gagpo.commands.plan_output import show_plan
from gagpo.plan import PlanRequest, make_plan
from gagpo.plan.accelerators import GPUS, gpu
from gagpo.plan.predict import Resources
from shared.recipe import load_recipe

console = Console(highlight=False)


def plan(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as configs/alfworld-cpu.toml.")],
    gpus: Annotated[int, typer.Option(min=0, help="GPUs for policy servers and trainer; 0: all on CPUs.")] = 0,
    env_cores: Annotated[int, typer.Option(min=1, help="Cores of the env servers, over all replicas.")] = 2,
    accelerator: Annotated[str, typer.Option("--gpu", help=f"Kind of GPU: {', '.join(GPUS)}.")] = "h100",
    policy_servers: Annotated[
        int | None, typer.Option(min=1, help="Policy servers; by default as many of the GPUs as is best.")
    ] = None,
    orchestrators: Annotated[int, typer.Option(min=1, help="Orchestrators.")] = 1,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="GPUs of one policy server.")] = 1,
    model: Annotated[
        Path | None, typer.Option(help="Folder with the model's config.json, if not the recipe's.")
    ] = None,
    turns: Annotated[float | None, typer.Option(min=1, help="Mean steps of an episode, where no run tells.")] = None,
    measured: Annotated[
        Path | None, typer.Option(help="Folder of a run on such machines: take the costs and lengths from it.")
    ] = None,
    measured_env_cores: Annotated[
        int | None, typer.Option(min=1, help="That run's env cores, if not the same.")
    ] = None,
    measured_policy_servers: Annotated[int, typer.Option(min=1, help="That run's policy servers.")] = 1,
    measured_training_processes: Annotated[int, typer.Option(min=1, help="That run's training processes.")] = 1,
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key: rollout.group_size=4")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Predict the time of a training step, what holds it up, and what to add next.

    Costs are those measured with the small policy on a CPU, or estimated from a GPU's data sheet; a run of your own
    (--measured) replaces both. docs/scaling.md explains the model.
    """
    with plain_errors("Interrupted."):
        request = PlanRequest(
            recipe=load_recipe(recipe, override or []),
            gpus=gpus,
            env_cores=env_cores,
            accelerator=gpu(accelerator),
            policy_servers=policy_servers,
            orchestrators=orchestrators,
            tensor_parallel=tensor_parallel,
            model=model,
            turns=turns,
            measured=measured,
            measured_with=Resources(
                gpus=gpus,
                env_cores=measured_env_cores or env_cores,
                policy_servers=measured_policy_servers,
                training_processes=measured_training_processes,
            ),
        )
        made = make_plan(request)
    if as_json:
        document = {**asdict(made), "bottleneck": made.prediction.bottleneck}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        show_plan(console, request.recipe.name, made)
