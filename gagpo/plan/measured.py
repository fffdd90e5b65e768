"""Unit costs and counts from a run's folder: its ``recipe.toml`` and ``metrics.jsonl``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gagpo.plan.costs import MovedBytes, TrainingCosts, TransferCosts, UnitCosts
from gagpo.plan.errors import PlanError
from gagpo.plan.predict import LATENCY_S, Resources, speed_up
from gagpo.plan.rollout import simulate_rollout
from gagpo.plan.workload import Workload, workload_of
from shared.recipe import Recipe, load_recipe
from shared.run_layout import RunFiles

_WARM_UP = 1
"""Training steps to leave out at the beginning: services still start, caches are cold."""
_BISECTIONS = 12


class MeasuredStep(BaseModel):
    """The part of a line of ``metrics.jsonl`` that costs are made from."""

    model_config = ConfigDict(extra="ignore")

    samples: int
    episodes: int
    mean_episode_length: float
    truncated_share: float
    tokens_generated: int
    tokens_trained: int
    seconds_wait: float
    seconds_old_logprobs: float
    seconds_update: float
    seconds_critic: float = 0.0
    seconds_push: float
    seconds_checkpoint: float
    seconds_total: float
    """Without the checkpoint."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run's recipe and the training steps that count."""

    recipe: Recipe
    steps: Sequence[MeasuredStep]
    rollout_s: float
    """Mean over those steps: the wait for a step's groups and the checkpoint before, during which they are made too."""

    @property
    def step_s(self) -> float:
        """Mean time of a training step, checkpoints included."""
        return sum(step.seconds_total + step.seconds_checkpoint for step in self.steps) / len(self.steps)


def read_run(folder: Path) -> MeasuredRun:
    """A run of `gagpo train`, or of a job. Raises `PlanError` where there is nothing to learn from."""
    metrics = RunFiles(folder).metrics
    if not metrics.is_file():
        raise PlanError(f"--measured = {folder}: no metrics.jsonl in it; name the folder of a run")
    steps = [MeasuredStep.model_validate_json(line) for line in metrics.read_text().splitlines()]
    if len(steps) < _WARM_UP + 2:
        raise PlanError(f"--measured = {folder}: {len(steps)} training steps; {_WARM_UP + 2} are the least")
    recipe = load_recipe(RunFiles(folder).recipe)
    if recipe.rollout.max_staleness:
        raise PlanError(
            f"--measured = {folder}: with rollout.max_staleness = {recipe.rollout.max_staleness} groups were made "
            "while the trainer trained, so nothing tells how long that took; take a run with 0"
        )
    counted = steps[_WARM_UP:]
    before = steps[_WARM_UP - 1 : -1]
    rollout = [step.seconds_wait + last.seconds_checkpoint for step, last in zip(counted, before, strict=True)]
    return MeasuredRun(recipe, counted, sum(rollout) / len(rollout))


def measured_workload(run: MeasuredRun, recipe: Recipe) -> Workload:
    """What ``recipe`` asks for, with the lengths and token counts that the run had."""
    assumed = workload_of(recipe)
    episodes = sum(step.episodes for step in run.steps)
    turns = sum(step.episodes * step.mean_episode_length for step in run.steps)
    samples = sum(step.samples for step in run.steps)
    if not samples:
        raise PlanError("--measured: the run trained on nothing, every group was left out; take a longer one")
    answer = sum(step.tokens_generated for step in run.steps) / turns
    sample = sum(step.tokens_trained for step in run.steps) / run.recipe.training.epochs / samples
    return replace(
        assumed,
        turns=min(turns / episodes, assumed.max_turns),
        cut_share=sum(step.episodes * step.truncated_share for step in run.steps) / episodes,
        prompt_tokens=max(1.0, sample - answer),
        answer_tokens=answer,
        signal_share=samples / turns,
        measured=True,
    )


def measured_costs(run: MeasuredRun, base: UnitCosts, moved: MovedBytes, resources: Resources) -> UnitCosts:
    """``base`` with what the run tells, ``resources`` being those that the run had.

    Training, push and checkpoint are divided by their counts. Generation is ``base``'s, times the factor with which the
    simulated rollout takes as long as the measured one did. Raises `PlanError` where no factor does that.
    """
    work = measured_workload(run, run.recipe)
    training = _training(run, work, resources.training_processes)
    push_s = sum(step.seconds_push for step in run.steps) / len(run.steps)
    costs = replace(
        base,
        source=f"measured in a run of {run.recipe.name}, {len(run.steps)} training steps",
        estimated=False,
        training=training,
        push=_transfer(push_s, base.push, moved.pushed),
        checkpoint=_checkpoint(run, base.checkpoint, moved.saved),
    )
    return costs.with_slower_generation(_generation_factor(work, costs, run.rollout_s - LATENCY_S, resources))


def _training(run: MeasuredRun, work: Workload, processes: int) -> TrainingCosts:
    steps, passes = run.steps, int(work.old_logprobs) + int(work.reference)
    computed = sum(step.tokens_trained for step in steps) * work.computed_share / speed_up(processes)
    update_s = sum(step.seconds_update for step in steps) / computed
    known_s = sum(step.seconds_old_logprobs for step in steps) / (computed / work.epochs)
    other = [
        step.seconds_total
        - (
            step.seconds_wait
            + step.seconds_old_logprobs
            + step.seconds_update
            + step.seconds_critic
            + step.seconds_push
        )
        for step in steps
    ]
    # Without a pass to measure: a third of forward and backward.
    return TrainingCosts(update_s, known_s / passes if passes else update_s / 3, sum(other) / len(other))


def _transfer(seconds: float, base: TransferCosts, size: float) -> TransferCosts:
    """What is not the bytes is fixed."""
    moving = min(seconds, base.byte_s * size)
    return TransferCosts(seconds - moving, base.byte_s)


def _checkpoint(run: MeasuredRun, base: TransferCosts, saved_bytes: float) -> TransferCosts:
    written = [step.seconds_checkpoint for step in run.steps if step.seconds_checkpoint]
    return _transfer(sum(written) / len(written), base, saved_bytes) if written else base


def _generation_factor(work: Workload, costs: UnitCosts, rollout_s: float, resources: Resources) -> float:
    def simulated(factor: float) -> float:
        return simulate_rollout(
            work,
            costs.with_slower_generation(factor),
            policy_servers=resources.policy_servers,
            env_cores=resources.env_cores,
            orchestrators=resources.orchestrators,
            most_running=resources.most_running,
        ).seconds

    low, high = 0.02, 50.0
    if not simulated(low) < rollout_s < simulated(high):
        raise PlanError(
            f"--measured: no speed of generation explains a rollout of {rollout_s:.1f} s with {resources.env_cores} "
            f"env cores and {resources.policy_servers} policy servers; did it have others?"
        )
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if simulated(middle) < rollout_s else (low, middle)
    return math.sqrt(low * high)
