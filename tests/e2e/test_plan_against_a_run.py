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
COMMON = ["training.steps=40", "training.checkpoint_every=3", "evaluation.episodes=0", "training.budget_s=150"]
HALF = ["rollout.groups_per_step=8", "rollout.concurrency=32"]
WHOLE = ["rollout.groups_per_step=16", "rollout.concurrency=64"]
TOLERANCE = 0.25
HAD = Resources(gpus=0, env_cores=2, policy_servers=1, training_processes=1)


def _training(runs: Path, name: str, shape: list[str]) -> subprocess.Popen[bytes]:
    changes = [part for change in [*COMMON, *shape] for part in ("--set", change)]
    command = [sys.executable, "-m", "gagpo", "train", str(RECIPE), "--runs", str(runs), "--run", name, *changes]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


def plan_from(run: Path, shape: list[str]) -> Plan:
    """The plan for the recipe in that shape, with costs and lengths from the run."""
    recipe = load_recipe(RECIPE, [*COMMON, *shape])
    request = PlanRequest(
        recipe, gpus=0, env_cores=HAD.env_cores, accelerator=gpu("h100"), measured=run, measured_with=HAD
    )
    return make_plan(request)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_predicts_the_step_time_of_one_of_another_size(tmp_path: Path) -> None:
    # Side by side, so that whatever else the machine does disturbs both alike.
    with _training(tmp_path, "half", HALF) as half, _training(tmp_path, "whole", WHOLE) as whole:
        assert half.wait(800) == 0
        assert whole.wait(200) == 0
    for learnt, real, shape in (("half", "whole", WHOLE), ("whole", "half", HALF)):
        found = read_run(tmp_path / real)
        prediction = plan_from(tmp_path / learnt, shape).prediction
        print(f"{learnt} → {real}: predicted {prediction.step_s:.2f} s, real {found.step_s:.2f} s a training step")
        assert prediction.step_s == pytest.approx(found.step_s, rel=TOLERANCE)
        assert prediction.rollout_s == pytest.approx(found.rollout_s, rel=TOLERANCE)
        assert prediction.bottleneck == "generation"
