"""`gagpo train` on ALFWorld and WebShop together: one policy, every part real."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gagpo.redis_server import start_redis
from shared.buffer import EventReader
from shared.recipe import load_recipe
from shared.schemas.evaluation import EvaluationReport
from tests.processes import REPOSITORY, without_settings
from tests.training_system import write_answering_policy

WORDS = "look inventory You see > Wanted: Find me search[shoes] click[back]"
ACTIONS = ("look", "look", "inventory", "search[shoes]", "click[back")
"""Each is understood by one of the environments at most; the last by none."""

RECIPE = """
name = "both"
seed = 5
[model]
path = "model"
[[environments]]
name = "alfworld"
weight = 3.0
max_steps = 4
generate = ["--tasks", "12", "--seed", "1", "--difficulty", "easy", "--valid-seen", "4", "--valid-unseen", "6"]
[[environments]]
name = "webshop"
split = "synthetic_train"
eval_split = "synthetic_test"
max_steps = 3
eval_episodes = 3
options = { observation_mode = "url" }
generate = ["--products", "60", "--seed", "1", "--style", "simple"]
[environments.prompt]
history_length = 0
[environments.reward]
success = 2.0
[prompt]
template = "compact"
history_length = 1
admissible_actions = false
max_tokens = 400
[sampling]
max_tokens = 3
[rollout]
groups_per_step = 4
group_size = 4
max_staleness = 1
[optimizer]
learning_rate = 1e-3
[training]
steps = 3
minibatches = 2
checkpoint_every = 1
[evaluation]
episodes = 8
"""


def _train(folder: Path) -> str:
    command = [sys.executable, "-m", "gagpo", "train", str(folder / "recipe.toml"), "--runs", str(folder), "--run", "r"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=without_settings(), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.timeout(500)
def test_one_policy_is_trained_on_both_and_told_of_each(tmp_path: Path) -> None:
    write_answering_policy(tmp_path / "model", WORDS, ACTIONS)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    said = _train(tmp_path)
    run = tmp_path / "r"
    assert load_recipe(run / "recipe.toml") == load_recipe(tmp_path / "recipe.toml")
    _check_groups(run)
    _check_metrics(run)
    _check_evaluations(run, said)


def _check_groups(run: Path) -> None:
    """Every group has one task of one environment, and each training step has them in the shares of their weights."""
    with start_redis(run / "redis") as redis:
        reader = EventReader(redis.url, run.name)
        groups = [event.payload for event in reader.follow(idle_s=0.1) if event.kind == "group"]
        reader.close()
    assert len(groups) == 12
    for step in range(3):
        own = [group for group in groups if group["step"] == step]
        assert Counter(group["environment"] for group in own) == {"alfworld": 3, "webshop": 1}
    for group in groups:
        assert str(group["task_id"]).startswith("synthetic-") == (group["environment"] == "webshop")
        assert group["episodes"] == 4


def _check_metrics(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2]
    for row in rows:
        alfworld, webshop = row["environments"]["alfworld"], row["environments"]["webshop"]
        assert (alfworld["groups"], webshop["groups"], row["groups"], row["groups_dropped"]) == (3, 1, 4, 0)
        assert alfworld["episodes"] + webshop["episodes"] == row["episodes"] == 16
        assert 0 < alfworld["invalid_action_share"] < 1
        assert 0 < webshop["invalid_action_share"] < 1
        assert webshop["mean_episode_length"] == 3
    assert all(row["grad_norm"] > 0 for row in rows), "penalties alone are a signal"
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    tags = board.Tags()["scalars"]
    for name in ("success_rate", "mean_score", "mean_return", "advantage_iqr", "groups_all_fail"):
        assert {name, f"environments/alfworld/{name}", f"environments/webshop/{name}"} <= set(tags)


def _check_evaluations(run: Path, said: str) -> None:
    """The same held-out tasks before and after, so many of each as the recipe says."""
    reports = [
        EvaluationReport.model_validate_json((run / f"evaluation-{when}.json").read_bytes())
        for when in ("before", "after")
    ]
    for report in reports:
        assert {name: one.episodes for name, one in report.environments.items()} == {"alfworld": 6, "webshop": 3}
        assert report.environments["webshop"].split == "synthetic_test"
    before, after = ([result.task_id for result in report.results] for report in reports)
    assert before == after
    summary = json.loads((run / "summary.json").read_text())
    assert set(summary["gains"]) == set(summary["after"]["environments"]) == {"alfworld", "webshop"}
    assert (run / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    for name in ("alfworld", "webshop"):
        assert f"{name} held-out success before" in said
