"""Trackers get every training step once, over restarts and outages, and never hold training up."""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gagpo.ports import free_port
from services.trainer.metrics import Metrics
from services.trainer.trackers import MetricsFile, TrackedJob, TrackerError, Trackers, check_trackers
from services.trainer.trackers import feed as feed_module
from services.trainer.trackers.feed import Feed
from shared.recipe import Recipe, TrackingSettings, parse_recipe
from shared.schemas.job import JobState
from shared.tracking_checks import tracking_faults, unreachable_trackers

mlflow = pytest.importorskip("mlflow")

RECIPE = """
name = "tracked"
[model]
path = "small"
[[environments]]
name = "alfworld"
[tracking]
"""


def recipe_with(tracking: str) -> Recipe:
    return parse_recipe(RECIPE + tracking, "test", Path("/somewhere"))


def metrics(step: int) -> Metrics:
    return {"step": step, "version": step + 1, "loss": 0.5 * step, "state_group_sizes": {"1": 3, "64+": 1}, "note": "x"}


def into_folder(store: Path) -> Recipe:
    return recipe_with(
        f'tensorboard = false\nmlflow = true\nmlflow_uri = "{store.as_uri()}"\nmlflow_experiment = "trials"'
    )


def client_of(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return mlflow.MlflowClient(tracking_uri=store.as_uri())


def test_mlflow_has_every_step_once_after_a_restart_that_trains_some_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = tmp_path / "store", tmp_path / "run"
    folder.mkdir()
    recipe = into_folder(store)
    first = Trackers(TrackedJob("job-1", folder, recipe, 0), [])
    for step in range(4):
        first.write(metrics(step))
    first.close(None)
    # Its last checkpoint was of version 2: two steps are trained anew, one is new.
    second = Trackers(TrackedJob("job-1", folder, recipe, 2), [metrics(0), metrics(1)])
    for step in range(2, 5):
        second.write(metrics(step))
    second.close(JobState.COMPLETED)

    client = client_of(store, monkeypatch)
    experiment = client.get_experiment_by_name("trials")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "job-1" and run.info.status == "FINISHED"
    assert run.data.params["algorithm.name"] == "gagpo" and run.data.params["environments.0.name"] == "alfworld"
    assert [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "loss")] == [
        (step, 0.5 * step) for step in range(5)
    ]
    assert run.data.metrics["state_group_sizes/64_"] == 1


def test_what_a_killed_trainer_did_not_send_is_sent_from_the_runs_own_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, folder = tmp_path / "store", tmp_path / "run"
    folder.mkdir()
    record = MetricsFile(folder / "metrics.jsonl", 0, {})
    for step in range(3):
        record.write(metrics(step))
    record.close()
    record = MetricsFile(folder / "metrics.jsonl", 3, metrics(2))
    trackers = Trackers(TrackedJob("job", folder, into_folder(store), 3), record.earlier)
    trackers.write(metrics(3))
    trackers.close(None)
    client = client_of(store, monkeypatch)
    (run,) = client.search_runs([client.get_experiment_by_name("trials").experiment_id])
    assert [point.step for point in client.get_metric_history(run.info.run_id, "version")] == [0, 1, 2, 3]


def test_tensorboard_is_the_default_and_is_purged_at_a_restart(tmp_path: Path) -> None:
    recipe = recipe_with("")
    assert (recipe.tracking.tensorboard, recipe.tracking.wandb, recipe.tracking.mlflow) == (True, False, False)
    for start, stop in ((0, 4), (2, 3)):
        trackers = Trackers(TrackedJob("job", tmp_path, recipe, start), [metrics(step) for step in range(start)])
        for step in range(start, stop):
            trackers.write(metrics(step))
        trackers.close(None)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert board.Scalars("state_group_sizes/64+")[0].value == 1.0


class Flaky:
    """A tracker whose server can be taken away."""

    def __init__(self) -> None:
        self.next_step, self.away, self.taken, self.state = 0, threading.Event(), list[int](), "open"

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        if self.away.is_set():
            raise ConnectionError("no route to the server")
        self.taken.append(step)

    def close(self, state: JobState | None) -> None:
        self.state = str(state)


def eventually(tracker: Flaky, steps: list[int]) -> None:
    give_up = time.monotonic() + 60
    while tracker.taken != steps:
        assert time.monotonic() < give_up, tracker.taken
        time.sleep(0.01)


def test_a_server_that_is_away_is_said_once_and_gets_what_it_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feed_module, "RETRY_S", 0.05)
    tracker = Flaky()
    feed = Feed("flaky", lambda job: tracker, TrackedJob("job", tmp_path, recipe_with(""), 0), [])
    with caplog.at_level(logging.INFO):
        feed.write(metrics(0))
        eventually(tracker, [0])
        tracker.away.set()
        for step in range(1, 4):
            feed.write(metrics(step))
        time.sleep(0.5)  # ten tries
        assert tracker.taken == [0]
        tracker.away.clear()
        eventually(tracker, [0, 1, 2, 3])
        feed.close(JobState.FAILED)
    said = [record.getMessage() for record in caplog.records if "flaky" in record.getMessage()]
    assert len(said) == 2 and "training goes on" in said[0] and "no route to the server" in said[0], said
    assert tracker.state == "failed"


def test_a_tracker_that_hangs_delays_neither_a_step_nor_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()

    class Hanging(Flaky):
        def write(self, step: int, numbers: Mapping[str, float]) -> None:
            release.wait(30)

    feed = Feed("hanging", lambda job: Hanging(), TrackedJob("job", tmp_path, recipe_with(""), 0), [])
    start = time.monotonic()
    for step in range(100):
        feed.write(metrics(step))
    feed.close(None, deadline_s=0.2)
    assert time.monotonic() - start < 5
    assert "hanging did not finish" in caplog.text
    release.set()


def test_a_new_job_does_not_begin_with_a_server_that_is_away_but_a_resumed_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recipe = recipe_with(f'tensorboard = false\nmlflow = true\nmlflow_uri = "http://127.0.0.1:{free_port()}"')
    with pytest.raises(TrackerError, match=r"tracking\.mlflow: .*Connection refused.*set tracking\.mlflow = false"):
        Trackers(TrackedJob("job", tmp_path, recipe, 0), [])
    assert "training goes on" not in caplog.text
    trackers = Trackers(TrackedJob("job", tmp_path, recipe, 2), [metrics(0), metrics(1)])
    trackers.write(metrics(2))
    trackers.close(None)
    assert "mlflow lacks the last 3 training steps; metrics.jsonl has them" in caplog.text


def test_a_run_that_its_server_lost_is_named_with_the_remedy(tmp_path: Path) -> None:
    job = TrackedJob("job", tmp_path, into_folder(tmp_path / "store"), 0)
    job.remember("mlflow", "0" * 32)
    with pytest.raises(TrackerError, match=r"the server has no run 0000.*delete .*trackers"):
        Trackers(job, [])


@pytest.mark.parametrize(
    ("tracking", "said"),
    [
        ({"mlflow": True}, "tracking.mlflow_uri: needed with mlflow = true: give the server's address"),
        ({"mlflow": True, "mlflow_uri": "sqlite:///x.db"}, "tracking.mlflow_uri = 'sqlite:///x.db': takes http://"),
        ({"wandb": True}, "the package wandb is not installed here: pip install 'gagpo[wandb]'"),
    ],
)
def test_a_tracker_that_will_not_do_is_named_before_anything_is_trained(
    tracking: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "wandb").mkdir()  # as W&B itself leaves one behind, which is no package
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    settings = TrackingSettings(**tracking)
    assert said in "; ".join(map(str, tracking_faults(settings)))
    with pytest.raises(TrackerError, match=r"tracking\."):
        check_trackers(settings)


def test_a_server_that_does_not_answer_is_found_when_a_job_is_submitted() -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    (fault,) = unreachable_trackers(TrackingSettings(mlflow=True, mlflow_uri=uri))
    assert str(fault).startswith(f"tracking.mlflow_uri = '{uri}': no MLflow server answers there")


def test_a_password_does_not_belong_into_a_recipe() -> None:
    with pytest.raises(Exception, match="MLFLOW_TRACKING_PASSWORD"):
        recipe_with('mlflow = true\nmlflow_uri = "https://me:secret@example.org"')
