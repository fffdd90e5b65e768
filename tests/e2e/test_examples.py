"""The examples' recipes through `gagpo train`, vLLM and all: an environment, a model and an estimator of one's own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from shared.credit_record import read_credit_record
from shared.run_layout import RunFiles
from tests.policy_processes import write_tiny_model
from tests.processes import REPOSITORY, without_settings
from tests.training import metrics_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

EXAMPLES = REPOSITORY / "examples"
TRAINED_S = 2500.0
"""Minutes on a quiet machine with two cores, and several times that on a busy one."""


def train(recipe: Path, runs: Path, *changes: str, **variables: str) -> Path:
    """The run's folder."""
    command = [sys.executable, "-m", "gagpo", "train", str(recipe), "--runs", str(runs), "--run", "run"]
    for change in changes:
        command += ["--set", change]
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    environment = {**without_settings(), **threads, **variables}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=TRAINED_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return runs / "run"


def test_a_policy_learns_the_environment_of_ones_own(tmp_path: Path) -> None:
    """Enough steps to see it: chance would not lift the success rate by a fifth."""
    known = json.dumps({"hide-and-seek": "examples.own_environment.hide_and_seek:HideAndSeekFamily"})
    run = train(EXAMPLES / "own_environment" / "recipe.toml", tmp_path, GAGPO_ENV_ENVIRONMENTS=known)
    before, after = (
        json.loads((run / f"evaluation-{when}.json").read_text())["success_rate"] for when in ("before", "after")
    )
    assert after > before + 0.2
    assert len(metrics_of(run)) == 15


def test_a_model_of_ones_own_is_trained_and_its_checkpoint_is_a_model_again(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    run = train(EXAMPLES / "own_model" / "recipe.toml", tmp_path / "runs", f'model.path="{model}"')
    (line,) = metrics_of(run)
    assert line["groups"] == 2
    AutoModelForCausalLM.from_pretrained(run / "checkpoints" / "step-000001")


def test_an_estimator_of_ones_own_gives_a_real_runs_steps_their_credit(tmp_path: Path) -> None:
    known = json.dumps({"time-baseline": "examples.own_estimator.time_baseline:TimeBaseline"})
    short = ("training.steps = 1", "evaluation.episodes = 0")
    run = train(EXAMPLES / "own_estimator" / "recipe.toml", tmp_path, *short, GAGPO_ALGORITHMS=known)
    record = read_credit_record(RunFiles(run).credit_record(0))
    assert record.algorithm == "custom"
    for one in record.groups:
        lengths = [len(episode.steps) for episode in one.group.episodes]
        first = [sum(lengths[:place]) for place in range(len(lengths))]
        assert one.credit.values[first] == pytest.approx(one.credit.returns[first].mean()), "all begin at the same time"
