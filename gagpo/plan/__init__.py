"""``gagpo plan``: how long a training step takes on given hardware, what holds it up, and what to add next.

`predict` puts together a discrete-event simulation of the rollout (`rollout`) and sums for training, pushes and
checkpoints. It takes a `workload` (what a recipe asks for, in counts) and `costs` (what a unit of each kind of work
takes), which come from a run's ``metrics.jsonl`` (`measured`) or from data sheets (`accelerators`). `planning` chooses
how GPUs are shared out and looks what more of each would do.
"""

from gagpo.plan.errors import PlanError
from gagpo.plan.planning import Plan, PlanRequest, make_plan

__all__ = ["Plan", "PlanError", "PlanRequest", "make_plan"]
