"""A plan, as a person reads it."""

from rich.console import Console
from rich.table import Table

from gagpo.plan import Plan
from gagpo.plan.memory import MemoryNeed


def show_plan(console: Console, recipe: str, plan: Plan) -> None:
    """Print the step's time, its phases, the bottleneck, what would help, and the memory."""
    step_s = plan.prediction.step_s
    certainty = "estimate" if plan.costs.estimated or not plan.workload.measured else "prediction"
    console.print(f"[bold]{recipe}[/bold]: {_seconds(step_s)} a training step ({certainty})")
    console.print(f"costs: {plan.costs.source}", markup=False)
    console.print(_workload(plan), markup=False)
    console.print(_resources(plan), markup=False)
    console.print(_phases(plan))
    console.print(f"bottleneck: [bold]{plan.prediction.bottleneck}[/bold]")
    if plan.alternatives:
        console.print(_alternatives(plan))
    else:
        console.print("no single change helps by more than a hundredth")
    console.print(_memory(plan.memory))
    for warning in plan.warnings:
        console.print(f"[yellow]warning:[/yellow] {warning}")


def _workload(plan: Plan) -> str:
    work = plan.workload
    origin = "measured" if work.measured else "assumed"
    return (
        f"work: {work.episodes} episodes of {work.turns:.1f} turns, {work.prompt_tokens:.0f} prompt and "
        f"{work.answer_tokens:.1f} sampled tokens a turn ({origin}); {work.samples:.0f} samples, "
        f"{work.trained_tokens / 1e3:.0f} thousand tokens to train on"
    )


def _resources(plan: Plan) -> str:
    has = plan.resources
    width = f" of {has.tensor_parallel} GPUs" if has.tensor_parallel > 1 else ""
    where = f"{has.gpus} GPUs: " if has.gpus else "CPUs: "
    return (
        f"{where}{has.policy_servers} policy servers{width}, {has.training_processes} training processes, "
        f"{has.orchestrators} orchestrators, {has.env_cores} env cores"
    )


def _phases(plan: Plan) -> Table:
    table = Table("phase", "seconds", "share", "busy", box=None, pad_edge=False)
    prediction = plan.prediction
    busy = {station.value: share for station, share in prediction.rollout.utilisation.items()}
    for name, seconds in prediction.phases.items():
        working = f"{busy[name]:.0%}" if name in busy else ""
        table.add_row(name, f"{seconds:.2f}", f"{seconds / prediction.step_s:.0%}", working)
    if prediction.overlapped:
        table.caption = "generation goes on during training, so the shares sum to more than 100%"
    return table


def _alternatives(plan: Plan) -> Table:
    table = Table("what would help", "a step", "gain", box=None, pad_edge=False)
    for one in plan.alternatives:
        gain = 1 - one.step_s / plan.prediction.step_s
        table.add_row(one.change, _seconds(one.step_s), f"{gain:.0%}")
    return table


def _memory(need: MemoryNeed) -> Table:
    table = Table("memory of each", "GB", "of which", box=None, pad_edge=False)
    table.add_row(
        "policy server",
        _gigabytes(need.policy),
        f"weights {_gigabytes(need.policy_weights)}, keys and values {_gigabytes(need.key_values)}",
    )
    table.add_row(
        "training process",
        _gigabytes(need.trainer),
        f"weights, gradients, reference {_gigabytes(need.trainer_weights)}, optimizer {_gigabytes(need.optimizer)}, "
        f"activations {_gigabytes(need.activations)}",
    )
    return table


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:.1f}" if value >= 1e9 else f"{value / 1e9:.3f}"
