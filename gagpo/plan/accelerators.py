"""Unit costs of machines: measured ones for a CPU with a small policy, estimates from data sheets for GPUs.

The estimates are a roofline: an operation takes as long as its arithmetic at a share of the peak rate, or its memory
traffic at a share of the peak bandwidth. The shares below are assumptions; a run of your own replaces all of it
(``--measured``).
"""

from dataclasses import dataclass

from gagpo.plan.costs import GenerationCosts, TrainingCosts, TransferCosts, UnitCosts
from gagpo.plan.errors import PlanError
from gagpo.plan.models import ModelSize
from gagpo.plan.predict import speed_up
from gagpo.plan.workload import Workload

DECODE_BANDWIDTH_SHARE = 0.6
"""Of the peak memory bandwidth, while weights, keys and values are read for a token."""
PREFILL_SHARE = 0.4
"""Of the peak arithmetic, while prompts are computed."""
TRAIN_SHARE = 0.35
"""Of the peak arithmetic, forward and backward."""
ITERATION_OVERHEAD_S = 0.004
"""Scheduling, sampling and launching kernels, in each iteration of the engine."""
STEP_OVERHEAD_S = 0.5
"""Reading groups, credit, metrics, in each training step."""
PUSH_FIXED_S = 0.3
PUSH_BYTE_S = 3e-9
"""Export to a disk, digest, read and load: 1 GB/s each, one after the other."""
CHECKPOINT_BYTE_S = 1e-9

ENV_STEP_S = 0.35e-3
ENV_OPEN_S = 6.0e-3
TURN_S = 0.9e-3
"""CPU seconds of a step, of opening a group, and of an orchestrator's turn (docs/orchestrator.md, docs/rest-api.md)."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The figures of a data sheet that matter here."""

    name: str
    flops: float
    """Dense bfloat16, a second."""
    bandwidth: float
    """Of its memory, bytes a second."""
    memory: float
    """Bytes."""


GPUS = {
    gpu.name: gpu
    for gpu in (
        Accelerator("a100-80", 312e12, 2.04e12, 80e9),
        Accelerator("h100", 989e12, 3.35e12, 80e9),
        Accelerator("h200", 989e12, 4.8e12, 141e9),
        Accelerator("l40s", 362e12, 0.864e12, 48e9),
        Accelerator("l4", 121e12, 0.3e12, 24e9),
    )
}
"""NVIDIA's data sheets: SXM variants of A100, H100 and H200; rates without sparsity."""

SMALL_POLICY_PARAMETERS = 801_792
CPU_MEASURED = UnitCosts(
    source="measured on two cores with AVX2 and the small policy",
    estimated=False,
    env_step_s=ENV_STEP_S,
    env_open_s=ENV_OPEN_S,
    turn_s=TURN_S,
    generation=GenerationCosts(iteration_s=15.5e-3, decode_s=0.39e-3, prefill_s=0.047e-3),
    training=TrainingCosts(update_token_s=37e-6, forward_token_s=12e-6, fixed_s=0.1),
    push=TransferCosts(fixed_s=0.1, byte_s=PUSH_BYTE_S),
    checkpoint=TransferCosts(fixed_s=0.1, byte_s=PUSH_BYTE_S),
    shared_machine=True,
)
"""For a model of `SMALL_POLICY_PARAMETERS` weights, all services on the same two cores: rollouts of 280 steps a second
(docs/orchestrator.md), updates of 1,400 samples a second that share prefixes (README.md). How generation's three units
relate to one another is fitted to the policy server's requests a second (docs/policy-server.md)."""


def gpu(name: str) -> Accelerator:
    """The accelerator of that name. Raises `PlanError`."""
    if name not in GPUS:
        raise PlanError(f"--gpu = {name}: known are {', '.join(GPUS)}")
    return GPUS[name]


def cpu_costs(size: ModelSize) -> UnitCosts:
    """The measured costs; for another model those of its matrix products grow with the number of its weights."""
    factor = size.parameters / SMALL_POLICY_PARAMETERS
    if 0.5 < factor < 2:
        return CPU_MEASURED
    measured = CPU_MEASURED
    return UnitCosts(
        source=f"{measured.source}, times {factor:.1f} for the size of the model",
        estimated=True,
        env_step_s=measured.env_step_s,
        env_open_s=measured.env_open_s,
        turn_s=measured.turn_s,
        generation=measured.generation.scaled(factor),
        training=TrainingCosts(
            measured.training.update_token_s * factor,
            measured.training.forward_token_s * factor,
            measured.training.fixed_s,
        ),
        push=measured.push,
        checkpoint=measured.checkpoint,
        shared_machine=True,
    )


def gpu_costs(
    accelerator: Accelerator,
    size: ModelSize,
    work: Workload,
    *,
    number_bytes: int,
    tensor_parallel: int,
    recompute: bool,
    shared: bool,
) -> UnitCosts:
    """Estimates for one policy server of ``tensor_parallel`` GPUs and one training process.

    A token takes 2 floating-point operations a weight forward and 4 backward; recomputing activations takes the forward
    ones a second time. A decoded token reads every weight once for the whole batch, and its own keys and values.
    """
    serving = speed_up(tensor_parallel)
    bandwidth = accelerator.bandwidth * DECODE_BANDWIDTH_SHARE * serving
    arithmetic = 2 * size.parameters / accelerator.flops
    context = work.prompt_tokens + work.answer_tokens / 2
    prefill_s = arithmetic / PREFILL_SHARE / serving
    forward_s = arithmetic / TRAIN_SHARE
    return UnitCosts(
        source=f"estimated for {accelerator.name} from its data sheet",
        estimated=True,
        env_step_s=ENV_STEP_S,
        env_open_s=ENV_OPEN_S,
        turn_s=TURN_S,
        generation=GenerationCosts(
            iteration_s=ITERATION_OVERHEAD_S + size.parameters * number_bytes / bandwidth,
            decode_s=context * size.key_value_bytes(number_bytes) / bandwidth + prefill_s,
            prefill_s=prefill_s,
        ),
        training=TrainingCosts(
            update_token_s=forward_s * (4 if recompute else 3),
            forward_token_s=forward_s,
            fixed_s=STEP_OVERHEAD_S,
        ),
        push=TransferCosts(PUSH_FIXED_S, PUSH_BYTE_S),
        checkpoint=TransferCosts(PUSH_FIXED_S, CHECKPOINT_BYTE_S),
        shared_machine=shared,
    )
