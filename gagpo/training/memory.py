"""Whether a recipe's model fits into this machine's memory at all: asked before anything is loaded."""

import os
from pathlib import Path

from gagpo.plan import PlanError
from gagpo.plan.memory import memory_need
from gagpo.plan.models import model_size
from gagpo.plan.planning import NUMBER_BYTES
from gagpo.plan.workload import workload_of
from shared.recipe import Recipe

_GPU = Path("/dev/nvidia0")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


class ModelTooLargeError(Exception):
    """Weights, gradients and moments alone are more than there is memory; the message says what takes less."""


def check_memory(recipe: Recipe, there: float | None = None, *, training: bool = True, at_once: int = 1) -> None:
    """Raise `ModelTooLargeError` where policy server and trainer can't both hold the model in this machine's memory.

    ``there`` is that memory in bytes, asked of the system when left out. With a GPU nothing is said: its memory counts
    then, and ``gagpo plan`` knows it. Activations and keys and values are not counted, so what passes may still fail.
    Without ``training`` only the policy server counts; ``at_once`` is the number of runs that share the machine.
    """
    if there is None and _GPU.exists():
        return
    try:
        size = model_size(recipe.model.path)
    except PlanError:
        return  # whoever loads the model says what is wrong with its folder
    need = memory_need(
        size,
        workload_of(recipe, None),
        number_bytes=NUMBER_BYTES[recipe.model.dtype],
        requests=0,
        tensor_parallel=1,
        training_processes=1,
        micro_batch_tokens=0,
        recompute=recipe.model.gradient_checkpointing,
        adapters=size.adapter_parameters(recipe.model.lora_rank, recipe.model.lora_targets),
    )
    least, machine = need.policy + (need.trainer if training else 0), _memory_here() if there is None else there
    if least * at_once > machine:
        trainer = f" and {_gib(need.trainer)} for the trainer with gradients and moments" if training else ""
        adapters = "set model.lora_rank to train adapters alone, " if training else ""
        runs = f", times {at_once} runs at a time" if at_once > 1 else ""
        fewer = "make fewer runs at a time, " if at_once > 1 else ""
        raise ModelTooLargeError(
            f"model.path = {recipe.model.path}: {size.parameters / 1e9:.1f} billion weights take {_gib(least)} at the "
            f"least, {_gib(need.policy)} for the policy server{trainer}{runs}, and this machine has {_gib(machine)}: "
            f"{fewer}take a smaller model, {adapters}or use a GPU (gagpo plan RECIPE --gpus N says how many)"
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.0f} GiB"


def _memory_here() -> float:
    physical = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if _CONTAINER_LIMIT.exists() and (limit := _CONTAINER_LIMIT.read_text().strip()) != "max":
        return min(physical, float(limit))
    return physical
