"""The trainer as a process on groups that wait in a real Redis, with a stand-in for the policy server's weights."""

import json
import time
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from services.trainer.checkpoints import read_state
from shared.buffer import EventReader, GroupReader, JobChannel
from shared.schemas.job import JobState
from shared.weights_digest import digest_of_folder
from tests.training import (
    WeightEndpoint,
    add_groups,
    metrics_of,
    start_trainer,
    training_group,
    write_recipe,
)

JOB = "job-1"


@pytest.mark.parametrize("transport", ["file", "http"])
def test_a_job_trains_to_its_end(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path, transport: str
) -> None:
    job, run = f"whole-{transport}", tmp_path / "run"
    recipe = write_recipe(model_folder, steps=3, checkpoint_every=2, transport=transport)
    add_groups(redis_url, job, [training_group(s, g) for s in range(3) for g in range(4)])
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait() == 0, trainer.log.read_text()

    assert [version for version, _ in endpoint.history] == [0, 1, 2, 3]
    assert len({digest for _, digest in endpoint.history}) == 4, "every version has other weights"
    pointer = json.loads((run / "weights" / "latest.json").read_text())
    assert (pointer["version"], pointer["digest"]) == endpoint.history[-1]
    assert digest_of_folder(run / "weights" / pointer["path"]) == pointer["digest"]

    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-000002", "step-000003"]
    last = run / "checkpoints" / "step-000003"
    assert digest_of_folder(last) == pointer["digest"]
    AutoModelForCausalLM.from_pretrained(last)
    assert AutoTokenizer.from_pretrained(last)("w5").input_ids
    assert read_state(last).consumed == [(2, 0), (2, 1), (2, 2), (2, 3)]

    lines = metrics_of(run)
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert all(line["groups"] == 4 and line["samples"] > 20 and line["grad_norm"] > 0 for line in lines)
    assert lines[2]["kl_reference"] > lines[0]["kl_reference"] > 0, "the policy moves away from the first one"
    assert list((run / "tensorboard").glob("events*"))
    channel = JobChannel(redis_url, job)
    assert channel.policy_version() == 3
    assert channel.state() is JobState.COMPLETED
    kinds = [event.kind for event in EventReader(redis_url, job).read()]
    assert kinds.count("step") == 3
    assert kinds.count("checkpoint") == 2
    assert kinds[-1] == "trainer-ended"
    with GroupReader(redis_url, job) as reader:
        assert reader.frontier() == 3
        assert reader.held_bytes() == 0


def test_a_step_whose_groups_carry_no_signal_still_makes_a_version(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    job, run = "no-signal", tmp_path / "run"
    recipe = write_recipe(model_folder, steps=1)
    add_groups(redis_url, job, [training_group(0, g, won=False) for g in range(4)])
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait() == 0, trainer.log.read_text()
    (first, digest), (second, same) = endpoint.history
    assert (first, second) == (0, 1)
    assert digest == same
    (line,) = metrics_of(run)
    assert line["groups_left_out"] == 4
    assert line["samples"] == 0
    assert line["success_rate"] == 0


def test_a_policy_server_that_is_away_for_a_moment_is_waited_for(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    job, run = "retries", tmp_path / "run"
    endpoint.refuse = 3
    recipe = write_recipe(model_folder, steps=1)
    add_groups(redis_url, job, [training_group(0, g) for g in range(4)])
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait() == 0, trainer.log.read_text()
    assert [version for version, _ in endpoint.history] == [0, 1]


def test_sigterm_while_waiting_keeps_what_was_learnt_and_the_same_command_goes_on(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    job, run = "sigterm", tmp_path / "run"
    recipe = write_recipe(model_folder, steps=2, checkpoint_every=100)
    add_groups(redis_url, job, [training_group(0, g) for g in range(4)])
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        _wait_for_version(redis_url, job, 1)
        assert trainer.terminate() == 128 + 15
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000001"]
    assert JobChannel(redis_url, job).state() is JobState.RUNNING
    add_groups(redis_url, job, [training_group(1, g) for g in range(4)])
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait() == 0, trainer.log.read_text()
    assert [version for version, _ in endpoint.history] == [0, 1, 1, 2]
    assert [line["step"] for line in metrics_of(run)] == [0, 1]


def test_a_cancelled_job_ends(redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path) -> None:
    job = "cancelled"
    recipe = write_recipe(model_folder, steps=2)
    with start_trainer(job, recipe, tmp_path / "run", redis_url, endpoint.url) as trainer:
        _wait_for_version(redis_url, job, 0)
        channel = JobChannel(redis_url, job)
        channel.set_state(JobState.CANCELLED)
        assert trainer.wait(20) == 0
        assert channel.state() is JobState.CANCELLED


@pytest.mark.slow
def test_two_trainers_do_not_work_in_one_folder(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    job, run = "twice", tmp_path / "run"
    recipe = write_recipe(model_folder, steps=1)
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as first:
        _wait_for_version(redis_url, job, 0)
        with start_trainer(job, recipe, run, redis_url, endpoint.url) as second:
            time.sleep(15)
            assert len(endpoint.history) == 1, "the second one pushes nothing"
            first.kill()
            add_groups(redis_url, job, [training_group(0, g) for g in range(4)])
            assert second.wait() == 0, second.log.read_text()
    assert [version for version, _ in endpoint.history] == [0, 0, 1]


def test_a_run_folder_without_the_checkpoint_that_redis_counts_on_is_refused(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    job = "lost-folder"
    recipe = write_recipe(model_folder, steps=1)
    with GroupReader(redis_url, job) as reader:
        reader.release(1)
    with start_trainer(job, recipe, tmp_path / "run", redis_url, endpoint.url) as trainer:
        assert trainer.wait() == 1
        assert "bring the folder with its checkpoint back" in trainer.log.read_text()
    assert endpoint.history == []
    assert JobChannel(redis_url, job).state() is JobState.FAILED


def _wait_for_version(redis_url: str, job: str, version: int, deadline_s: float = 60.0) -> None:
    channel, give_up = JobChannel(redis_url, job), time.monotonic() + deadline_s
    while (held := channel.policy_version()) is None or held < version:
        assert time.monotonic() < give_up, f"version {version} did not come, the last one is {held}"
        time.sleep(0.05)
