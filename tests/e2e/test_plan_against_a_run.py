"""What `gagpo plan` learns from one run predicts another one, of another shape, within 25%."""

import subprocess
import sys
from pathlib import Path

import pytest

from gagpo.plan import Plan, PlanRequest, make_plan
from gagpo.plan.accelerators import gpu
from gagpo.plan.measured import read_run
from gagpo.plan.predict import Resources
from shared.recipe import load_recipe

REPOSITORY = Path(__file__).parents[2]
RECIPE = REPOSITORY / "configs" / "alfworld-cpu.toml"
COMMON = ["training.steps=6", "training.checkpoint_every=3", "evaluation.episodes=0", "training.budget_s=200"]
LEARNT_FROM = ["rollout.groups_per_step=8", "rollout.concurrency=32"]
PREDICTED = ["rollout.groups_per_step=16", "rollout.concurrency=64"]
TOLERANCE = 0.25
HAD = Resources(gpus=0, env_cores=2, policy_servers=1, training_processes=1)


def _train(runs: Path, name: str, shape: list[str]) -> Path:
    changes = [part for change in [*COMMON, *shape] for part in ("--set", change)]
    command = [sys.executable, "-m", "gagpo", "train", str(RECIPE), "--runs", str(runs), "--run", name, *changes]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=400, stdout=subprocess.DEVNULL)
    return runs / name


def plan_from(run: Path, shape: list[str]) -> Plan:
    """The plan for the recipe in that shape, with costs and lengths from the run."""
    recipe = load_recipe(RECIPE, [*COMMON, *shape])
    request = PlanRequest(
        recipe, gpus=0, env_cores=HAD.env_cores, accelerator=gpu("h100"), measured=run, measured_with=HAD
    )
    return make_plan(request)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_of_half_the_size_predicts_the_step_time(tmp_path: Path) -> None:
    learnt = _train(tmp_path, "learnt", LEARNT_FROM)
    real = read_run(_train(tmp_path, "real", PREDICTED))
    plan = plan_from(learnt, PREDICTED)
    print(f"predicted {plan.prediction.step_s:.2f} s, real {real.step_s:.2f} s a training step")
    assert plan.prediction.step_s == pytest.approx(real.step_s, rel=TOLERANCE)
    assert plan.prediction.bottleneck == "generation"
    assert plan.prediction.rollout_s == pytest.approx(real.rollout_s, rel=TOLERANCE)
