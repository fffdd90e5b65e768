"""Trackers through the trainer's own process: started, killed, resumed."""

from pathlib import Path

import pytest

from gagpo.ports import free_port
from shared.buffer import JobChannel
from shared.schemas.job import JobState
from tests.training import (
    WeightEndpoint,
    add_groups,
    metrics_of,
    start_trainer,
    training_group,
    wait_until_pushed,
    write_recipe,
)

mlflow = pytest.importorskip("mlflow")

STEPS = 5
PATIENCE_S = 280.0
"""A start takes seconds on a quiet machine, and minutes on one that is busy with other things."""

pytestmark = pytest.mark.timeout(900)


def with_mlflow(model_folder: Path, uri: str) -> Path:
    changes = ("tracking.mlflow = true", f'tracking.mlflow_uri = "{uri}"')
    return write_recipe(model_folder, *changes, steps=STEPS, checkpoint_every=3)


def test_a_job_that_was_killed_is_one_run_in_mlflow_with_every_step_once(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = tmp_path / "mlflow", tmp_path / "run"
    recipe = with_mlflow(model_folder, store.as_uri())
    add_groups(redis_url, "tracked", [training_group(step, index) for step in range(STEPS) for index in range(4)])
    with start_trainer("tracked", recipe, run, redis_url, endpoint.url) as trainer:
        wait_until_pushed(
            endpoint, 5, deadline_s=2 * PATIENCE_S
        )  # beyond the checkpoint of version 3: what follows it is trained anew
        trainer.kill()
    with start_trainer("tracked", recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(PATIENCE_S) == 0, trainer.log.read_text()

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=store.as_uri())
    (found,) = client.search_runs([client.get_experiment_by_name("gagpo").experiment_id])
    assert found.info.status == "FINISHED" and found.data.tags["gagpo.job"] == "tracked"
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [point.step for point in history] == list(range(STEPS))
    assert [point.value for point in history] == pytest.approx([line["loss"] for line in metrics_of(run)])
    assert "Latest training steps" in (run / "checkpoints" / "step-000005" / "README.md").read_text()


def test_a_job_whose_tracker_can_not_be_used_fails_before_its_first_step_and_says_why(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recipe, run = with_mlflow(model_folder, f"http://127.0.0.1:{free_port()}"), tmp_path / "run"
    with start_trainer("untracked", recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(PATIENCE_S) == 1
    said = trainer.log.read_text()
    assert "tracking.mlflow: " in said and "Connection refused" in said and "Traceback" not in said
    assert endpoint.history == []
    channel = JobChannel(redis_url, "untracked")
    assert channel.state() is JobState.FAILED
    channel.close()
