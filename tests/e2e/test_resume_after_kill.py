"""``kill -9`` of the trainer in the middle of a real job: the same command goes on, and the rest carries on with it."""

import time
from pathlib import Path

import pytest

from services.trainer.checkpoints import read_state
from shared.buffer import GroupReader, JobChannel
from shared.weights_digest import digest_of_folder
from tests.training import metrics_of, start_trainer
from tests.training_system import MazeSystem

STEPS = 6


@pytest.mark.slow  # the quick test of it is `test_main_job.py`'s, where `gagpo train` is the same command
@pytest.mark.timeout(400)
def test_a_killed_trainer_goes_on_from_its_checkpoint(maze_system: MazeSystem, tmp_path: Path) -> None:
    job, run = "killed", tmp_path / "run"
    recipe = maze_system.write_recipe(tmp_path, steps=STEPS, checkpoint_every=2)
    url = maze_system.policy.url
    with maze_system.orchestrator(job, recipe) as orchestrator:
        with start_trainer(job, recipe, run, maze_system.redis_url, url) as trainer:
            _wait_for_version(maze_system.redis_url, job, 3)
            trainer.kill()
        assert orchestrator.poll() is None, "the orchestrator waits for the trainer"
        with start_trainer(job, recipe, run, maze_system.redis_url, url) as trainer:
            assert trainer.wait(240) == 0, trainer.log.read_text()
        assert orchestrator.wait(30) == 0

    checkpoints = sorted((run / "checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["step-000002", "step-000004", "step-000006"]
    used = [place for path in checkpoints for place in read_state(path).consumed]
    assert used == [(step, index) for step in range(STEPS) for index in range(4)], "each group exactly once"
    assert [line["step"] for line in metrics_of(run)] == list(range(STEPS))
    held = maze_system.policy.weights()
    assert (held.version, held.digest) == (STEPS, digest_of_folder(checkpoints[-1]))
    with GroupReader(maze_system.redis_url, job) as reader:
        assert (reader.frontier(), reader.held_bytes()) == (STEPS, 0)


def _wait_for_version(redis_url: str, job: str, version: int, deadline_s: float = 240.0) -> None:
    channel, give_up = JobChannel(redis_url, job), time.monotonic() + deadline_s
    while (held := channel.policy_version()) is None or held < version:
        assert time.monotonic() < give_up, f"version {version} did not come, the last one is {held}"
        time.sleep(0.02)
