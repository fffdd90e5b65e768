"""Every algorithm and every kind of update through all services: groups from vLLM, new weights back into it."""

from pathlib import Path

import pytest

from shared.weights_digest import digest_of_folder
from tests.training import metrics_of, start_trainer
from tests.training_system import MazeSystem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 3


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('name = "gigpo"', "advantage_iqr"),
        ('name = "gigpo"\nsimilarity = 0.8\nspread = "mean-only"', "advantage_iqr"),
        ('name = "grpo"', "advantage_iqr"),
        ('name = "rloo"', "advantage_iqr"),
        ('name = "ppo"\n[algorithm.critic]\nlearning_rate = 1e-3', "value_loss"),
        ('name = "gagpo"\nsimilarity = 0.8\nbootstrap_truncated = true', "sibling_share"),
        ('name = "gagpo"\nbehaviour_cap = 2.0', "behaviour_weight"),
        ('name = "gagpo"\nupdate = "trpo"', "trpo_kl"),
        ('name = "ppo"\nupdate = "trpo"', "trpo_kl"),
    ],
    ids=["gigpo", "gigpo-similar", "grpo", "rloo", "ppo", "gagpo-similar", "gagpo-cap", "gagpo-trpo", "ppo-trpo"],
)
def test_a_job_trains_and_its_weights_are_served(maze_system: MazeSystem, tmp_path: Path, table: str, key: str) -> None:
    job, run = tmp_path.name.replace("_", "-"), tmp_path / "run"
    recipe = maze_system.write_recipe(tmp_path, steps=STEPS)
    recipe.write_text(f"{recipe.read_text()}[algorithm]\n{table}\n")
    with (
        maze_system.orchestrator(job, recipe) as orchestrator,
        start_trainer(job, recipe, run, maze_system.redis_url, maze_system.policy.url) as trainer,
    ):
        assert trainer.wait(400) == 0, trainer.log.read_text()
        assert orchestrator.wait(30) == 0
    lines = metrics_of(run)
    assert [line["step"] for line in lines] == list(range(STEPS))
    assert all(key in line for line in lines)
    assert all(line["true_state_known"] == 1.0 for line in lines)
    if "trpo" in table:
        assert all(line["trpo_kl"] <= 0.01 for line in lines)
    checkpoint, held = run / "checkpoints" / f"step-{STEPS:06d}", maze_system.policy.weights()
    assert (held.version, held.digest) == (STEPS, digest_of_folder(checkpoint))
    assert held.digest != digest_of_folder(maze_system.model)
