"""From what a person asks for to a plan: shares out the GPUs, and looks what more of each would do."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from gagpo.plan.accelerators import Accelerator, cpu_costs, gpu_costs
from gagpo.plan.costs import MovedBytes, UnitCosts
from gagpo.plan.errors import PlanError
from gagpo.plan.measured import MeasuredRun, measured_costs, measured_workload, read_run
from gagpo.plan.memory import TRAINED_BYTES, MemoryNeed, memory_need
from gagpo.plan.models import ModelSize, model_size
from gagpo.plan.predict import Prediction, Resources, changes, predict
from gagpo.plan.workload import Workload, workload_of
from shared.recipe import Recipe

NUMBER_BYTES = {"float32": 4, "bfloat16": 2}
"""Bytes of a weight by the recipe's ``model.dtype``."""

_SERVING_MEMORY_SHARE = 0.9
_SHARED_SERVING_MEMORY_SHARE = 0.45
"""Of a GPU that generation and training share."""
_LEAST_GAIN = 0.01


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to be planned."""

    recipe: Recipe
    gpus: int
    env_cores: int
    accelerator: Accelerator
    policy_servers: int | None = None
    """None shares the GPUs out as is best."""
    orchestrators: int = 1
    tensor_parallel: int = 1
    model: Path | None = None
    """Folder with the model's config.json, where the recipe's is on another machine."""
    turns: float | None = None
    """Mean length of an episode, where no run tells."""
    measured: Path | None = None
    """Folder of a run to learn the costs from, on machines of the same kind."""
    measured_with: Resources | None = None
    """What that run had; needed with ``measured``."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One change, and what a training step would take with it."""

    change: str
    step_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    model: ModelSize
    workload: Workload
    costs: UnitCosts
    resources: Resources
    prediction: Prediction
    memory: MemoryNeed
    moved: MovedBytes
    alternatives: list[Alternative] = field(default_factory=list)
    """Best first; those that gain next to nothing are left out."""
    warnings: list[str] = field(default_factory=list)


def make_plan(request: PlanRequest) -> Plan:
    """Predict a training step with the best use of what there is. Raises `PlanError` where something is missing."""
    plans = [_plan(request, resources) for resources in _ways(request)]
    return _with_alternatives(min(plans, key=lambda plan: plan.prediction.step_s))


def _ways(request: PlanRequest) -> list[Resources]:
    """All ways to share the GPUs out between policy servers and the trainer."""

    def resources(policy_servers: int, training_processes: int) -> Resources:
        return Resources(
            gpus=request.gpus,
            env_cores=request.env_cores,
            policy_servers=policy_servers,
            training_processes=training_processes,
            orchestrators=request.orchestrators,
            tensor_parallel=request.tensor_parallel,
        )

    wanted, width = request.policy_servers, request.tensor_parallel
    if request.gpus <= 1:
        return [resources(wanted or 1, 1)]
    most = (request.gpus - 1) // width
    if not 1 <= (wanted or 1) <= most:
        raise PlanError(
            f"--policy-servers {wanted or 1} of {width} GPUs each leave none of {request.gpus} to the trainer: "
            f"at most {most} fit"
        )
    counts = range(1, most + 1) if wanted is None else [wanted]
    return [resources(count, request.gpus - count * width) for count in counts]


def _plan(request: PlanRequest, resources: Resources) -> Plan:
    recipe = request.recipe
    model = model_size(request.model or recipe.model.path)
    run = read_run(request.measured) if request.measured else None
    work = workload_of(recipe, request.turns) if run is None else measured_workload(run, recipe)
    moved = _moved_bytes(recipe, model)
    resources, warnings = _within_memory(request, model, work, resources)
    costs = _costs(request, model, work, run)
    return Plan(
        model=model,
        workload=work,
        costs=costs,
        resources=resources,
        prediction=predict(work, costs, moved, resources),
        memory=_memory(request, model, work, resources),
        moved=moved,
        warnings=warnings,
    )


def _with_alternatives(plan: Plan) -> Plan:
    found = [
        Alternative(change.what, predict(change.work, plan.costs, plan.moved, change.resources).step_s)
        for change in changes(plan.workload, plan.resources)
    ]
    gaining = [one for one in found if one.step_s < plan.prediction.step_s * (1 - _LEAST_GAIN)]
    return replace(plan, alternatives=sorted(gaining, key=lambda one: one.step_s))


def _costs(request: PlanRequest, model: ModelSize, work: Workload, run: MeasuredRun | None) -> UnitCosts:
    base = _base_costs(request, model, work)
    if run is None:
        return base
    if request.measured_with is None:
        raise PlanError("a run's costs mean nothing without the resources that it had")
    return measured_costs(run, base, _moved_bytes(request.recipe, model), request.measured_with)


def _moved_bytes(recipe: Recipe, model: ModelSize) -> MovedBytes:
    """Merged weights go out as the frozen ones are kept, others as they are trained.

    A checkpoint has two moments of every trained weight besides, and the adapters once more by themselves.
    """
    if not recipe.model.lora_rank:
        weights = float(model.parameters * TRAINED_BYTES)
        return MovedBytes(weights, 3 * weights)
    merged = float(model.parameters * NUMBER_BYTES[recipe.model.dtype])
    adapters = model.adapter_parameters(recipe.model.lora_rank, recipe.model.lora_targets) * TRAINED_BYTES
    return MovedBytes(merged, merged + 3 * adapters)


def _base_costs(request: PlanRequest, model: ModelSize, work: Workload) -> UnitCosts:
    costs = _all_weights_costs(request, model, work)
    return costs.with_frozen_weights() if request.recipe.model.lora_rank else costs


def _all_weights_costs(request: PlanRequest, model: ModelSize, work: Workload) -> UnitCosts:
    if not request.gpus:
        return cpu_costs(model)
    return gpu_costs(
        request.accelerator,
        model,
        work,
        number_bytes=NUMBER_BYTES[request.recipe.model.dtype],
        tensor_parallel=request.tensor_parallel,
        recompute=request.recipe.model.gradient_checkpointing,
        shared=request.gpus == 1,
    )


def _memory(request: PlanRequest, model: ModelSize, work: Workload, resources: Resources) -> MemoryNeed:
    recipe = request.recipe
    requests = min(resources.most_running, -(-min(work.concurrency, work.episodes) // resources.policy_servers))
    return memory_need(
        model,
        work,
        number_bytes=NUMBER_BYTES[recipe.model.dtype],
        requests=requests,
        tensor_parallel=resources.tensor_parallel,
        training_processes=resources.training_processes,
        micro_batch_tokens=recipe.training.micro_batch_tokens,
        recompute=recipe.model.gradient_checkpointing,
        adapters=model.adapter_parameters(recipe.model.lora_rank, recipe.model.lora_targets),
    )


def _within_memory(
    request: PlanRequest, model: ModelSize, work: Workload, resources: Resources
) -> tuple[Resources, list[str]]:
    """The resources, with no more requests at once than keys and values have room for; and what does not fit."""
    if not request.gpus:
        return resources, []
    need = _memory(request, model, work, resources)
    gpu, shared = request.accelerator, request.gpus == 1
    warnings = []
    serving = gpu.memory * (_SHARED_SERVING_MEMORY_SHARE if shared else _SERVING_MEMORY_SHARE)
    training = gpu.memory - serving if shared else gpu.memory
    if need.trainer > training:
        warnings.append(
            f"training takes {need.trainer / 1e9:.0f} GB a GPU and {training / 1e9:.0f} GB are there: "
            "more training GPUs, gradient_checkpointing, lora_rank, or fewer micro_batch_tokens"
        )
    room = serving - need.policy_weights
    if room <= 0:
        raise PlanError(
            f"the model takes {need.policy_weights / 1e9:.0f} GB of each serving GPU, and vLLM may have "
            f"{serving / 1e9:.0f} GB of {gpu.name}: raise --tensor-parallel"
        )
    each = (work.prompt_tokens + work.answer_tokens) * model.key_value_bytes(NUMBER_BYTES[request.recipe.model.dtype])
    fitting = max(1, int(room * resources.tensor_parallel / each))
    if fitting < resources.most_running:
        warnings.append(f"keys and values of {fitting} requests fit into a policy server at once")
    return replace(resources, most_running=min(resources.most_running, fitting)), warnings
