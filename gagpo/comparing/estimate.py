"""How long the runs of a study will take, from those that were made, or else from the plan of a training step."""

from collections.abc import Sequence
from statistics import fmean

from gagpo.comparing.planning import PlannedRun, RunState
from gagpo.comparing.run_record import read_record
from gagpo.plan import PlanError, PlanRequest, make_plan
from gagpo.plan.accelerators import gpu
from shared.recipe import Recipe

AROUND_TRAINING_S = 30.0
"""What a run takes beside its training steps: starting the trainer, and an evaluation."""


def estimates(runs: Sequence[PlannedRun]) -> dict[str, float | None]:
    """Expected seconds of each run by its name, without starting servers; None where nothing tells.

    The mean of the complete runs of the same variant on the same base, else of any variant on it, else a plan.
    """
    made = [run for run in runs if run.state() is RunState.COMPLETE]
    plans: dict[str, float | None] = {}
    found = {}
    for run in runs:
        near = [other for other in made if other.base == run.base]
        alike = [other for other in near if other.variant == run.variant] or near
        if not alike and run.base not in plans:
            plans[run.base] = _planned(run.recipe)
        found[run.name] = fmean(read_record(one.folder).seconds for one in alike) if alike else plans[run.base]
    return found


def _planned(recipe: Recipe) -> float | None:
    try:
        plan = make_plan(PlanRequest(recipe=recipe, gpus=0, env_cores=2, accelerator=gpu("h100")))
    except PlanError:
        return None
    training = recipe.training
    steps = float(training.steps)
    if training.environment_steps is not None:
        steps = min(steps, training.environment_steps / (plan.workload.episodes * plan.workload.turns))
    seconds = steps * plan.prediction.step_s
    return AROUND_TRAINING_S + (seconds if training.budget_s is None else min(seconds, training.budget_s))
