"""WebShop's demo as a user runs it, for a few steps: every part real, from the generated shop to the summary."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
RECIPE = REPOSITORY / "configs" / "webshop-cpu.toml"
STEPS = 3
CHANGES = [
    f"training.steps={STEPS}",
    "training.budget_s=600",
    "rollout.groups_per_step=4",
    "rollout.group_size=4",
    "evaluation.episodes=48",
]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_policy_shops_and_trains_on_scores(tmp_path: Path) -> None:
    changes = [part for change in CHANGES for part in ("--set", change)]
    done = subprocess.run(
        [sys.executable, "-m", "gagpo", "train", str(RECIPE), "--runs", str(tmp_path), "--run", "job", *changes],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "job" / "summary.json").read_text())
    assert (summary["training_steps"], summary["policy_version"]) == (STEPS, STEPS)
    before = summary["before"]
    assert before["episodes"] == 48
    assert 0.05 < before["success_rate"] < before["mean_score"] < 0.9, "a policy that knows how to shop, not yet well"
    rows = [json.loads(line) for line in (tmp_path / "job" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(STEPS))
    assert len({row["mean_score"] for row in rows}) > 1
