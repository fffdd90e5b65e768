"""A job's life in a real trainer service with a real worker: from the queue to a checkpoint that loads."""

import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoModelForCausalLM, AutoTokenizer

from shared.schemas.credit import CellDetail, StepCredit
from shared.schemas.job import CheckpointList, JobList, JobState
from tests.job_service import JobSystem, TrainerUnderTest


@pytest.fixture(scope="module")
def trainer(system: JobSystem) -> Iterator[TrainerUnderTest]:
    """One service for all tests of this file: it works off their jobs one after the other."""
    with system.trainer() as running:
        yield running


def test_jobs_wait_for_their_turn_train_and_leave_checkpoints(
    system: JobSystem, trainer: TrainerUnderTest, tmp_path: Path
) -> None:
    recipe = system.recipe(steps=2)
    answer = trainer.submit(recipe, "first")
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/v1/jobs/first"
    assert trainer.submit(recipe, "second").json()["state"] == "queued"
    assert trainer.submit(recipe, "first").status_code == 200
    trainer.wait_for("first", JobState.RUNNING)
    waiting = trainer.show("second")
    assert (waiting.state, waiting.position, waiting.started_at) == (JobState.QUEUED, 0, None)
    assert system.store().active() == "first"
    assert trainer.post("second/cancel").json()["state"] == "cancelled"

    system.add_groups("first", range(1))
    trainer.wait_for_version("first", 1)
    _check_metrics_of_a_step(trainer)
    system.add_groups("first", range(1, 2))
    done = trainer.wait_for("first", JobState.COMPLETED)
    assert (done.policy_version, done.steps, done.reason) == (2, 2, "all training steps are done")
    assert [version for version, _ in system.endpoint.history] == [0, 1, 2]
    assert trainer.show("first").metrics["version"] == 2
    assert system.store().active() is None
    listed = JobList.model_validate_json(httpx.get(trainer.jobs).content).jobs
    assert [(job.id, job.state) for job in listed] == [("second", "cancelled"), ("first", "completed")]
    assert [json.loads(line)["step"] for line in trainer.get("first/metrics").text.splitlines()] == [0, 1]

    _check_credit(trainer)
    _check_checkpoints(trainer, tmp_path)
    _check_events(trainer)
    _check_log(trainer)
    text = httpx.get(f"{trainer.process.url}/metrics").text
    assert 'gagpo_trainer_jobs{state="completed"} 1.0' in text
    assert "gagpo_trainer_jobs_submitted_total 2.0" in text


def test_a_deleted_job_leaves_nothing_and_its_id_is_free(system: JobSystem, trainer: TrainerUnderTest) -> None:
    job, folder = "brief", system.runs / "brief"
    trainer.submit(system.recipe(steps=2), job).raise_for_status()
    trainer.wait_for(job, JobState.RUNNING)
    refused = httpx.delete(f"{trainer.jobs}/{job}", timeout=30)
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/job-not-over")
    assert f"POST /v1/jobs/{job}/cancel" in refused.json()["detail"]
    system.add_groups(job, range(1))
    trainer.wait_for_version(job, 1)
    trainer.post(f"{job}/cancel").raise_for_status()
    assert folder.is_dir()
    gone = httpx.delete(f"{trainer.jobs}/{job}", timeout=30)  # its worker still has to end
    assert (gone.status_code, gone.content) == (204, b"")
    assert not [one.name for one in system.runs.iterdir() if job in one.name]
    for answer in (httpx.delete(f"{trainer.jobs}/{job}"), httpx.get(f"{trainer.jobs}/{job}")):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-job")
    assert trainer.submit(system.recipe(steps=9), job).status_code == 201, "the id is free for another recipe"
    assert trainer.show(job).policy_version == 0
    trainer.post(f"{job}/cancel").raise_for_status()
    assert httpx.delete(f"{trainer.jobs}/{job}", timeout=30).status_code == 204


def _check_metrics_of_a_step(trainer: TrainerUnderTest) -> None:
    give_up = time.monotonic() + 60
    while "gagpo_trainer_step_seconds{" not in (text := httpx.get(f"{trainer.process.url}/metrics").text):
        assert time.monotonic() < give_up, text
        time.sleep(0.1)
    shown: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            shown.setdefault(sample.name, {})[",".join(sample.labels.values())] = sample.value
    metrics = trainer.show("first").metrics
    assert shown["gagpo_trainer_step_seconds"]["update"] == metrics["seconds_update"] > 0
    assert shown["gagpo_trainer_staleness_versions"]["max"] == metrics["staleness_max"]
    assert shown["gagpo_trainer_update"]["loss"] == metrics["loss"]
    assert shown["gagpo_trainer_tokens_per_second"]["trained"] == metrics["tokens_per_s_trained"] > 0
    assert shown["gagpo_trainer_success_ratio"] == {"maze": metrics["success_rate"]}
    assert shown["gagpo_trainer_score_mean"] == {"maze": metrics["mean_score"]}
    assert shown["gagpo_trainer_policy_version"] == {"": 1}


def _check_credit(trainer: TrainerUnderTest) -> None:
    assert trainer.get("first/credit").json() == {"steps": [0, 1]}
    shown = StepCredit.model_validate_json(trainer.get("first/credit/1").content)
    assert [group.index for group in shown.groups] == [0, 1, 2, 3]
    assert sum(group.trained_steps for group in shown.groups) == trainer.show("first").metrics["samples"]
    cell = CellDetail.model_validate_json(trainer.get("first/credit/1/groups/2/episodes/0/steps/0").content)
    assert (cell.state_key, len(cell.siblings)) == ("start", 3), "all four episodes begin in one state"
    assert cell.prompt is not None, "the model's own tokenizer reads it"
    assert len(cell.prompt.split()) == cell.prompt_tokens


def _check_checkpoints(trainer: TrainerUnderTest, folder: Path) -> None:
    kept = CheckpointList.model_validate_json(trainer.get("first/checkpoints").content).checkpoints
    assert [one.version for one in kept] == [1, 2]
    whole = trainer.get("first/checkpoints/2/archive")
    assert int(whole.headers["content-length"]) == len(whole.content)
    with tarfile.open(fileobj=io.BytesIO(whole.content)) as archive:
        assert sum(member.size for member in archive) == kept[1].bytes
        archive.extractall(folder, filter="data")
    AutoModelForCausalLM.from_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder)("w5").input_ids
    assert (folder / "trainer" / "state.json").is_file()

    rest = trainer.get("first/checkpoints/2/archive", **{"range": "bytes=70001-", "if-range": whole.headers["etag"]})
    assert rest.status_code == 206
    assert whole.content[70001:] == rest.content
    other = trainer.get("first/checkpoints/2/archive", **{"range": "bytes=70001-", "if-range": '"another"'})
    assert (other.status_code, other.content) == (200, whole.content)
    small = trainer.get("first/checkpoints/2/archive?trainer_state=false")
    with tarfile.open(fileobj=io.BytesIO(small.content)) as archive:
        assert "model.safetensors" in archive.getnames()
        assert not any(name.startswith("trainer") for name in archive.getnames())
    missing = httpx.get(f"{trainer.jobs}/first/checkpoints/9/archive")
    assert (missing.status_code, missing.json()["type"]) == (404, "/problems/unknown-checkpoint")
    assert "it keeps: 1, 2" in missing.json()["detail"]


def _check_events(trainer: TrainerUnderTest) -> None:
    told = _events(trainer.get("first/events").text)
    kinds = [kind for _, kind, _ in told]
    assert kinds[0] == "state"
    assert kinds.count("step") == 2
    assert (kinds[-1], told[-1][2]["state"]) == ("state", "completed")
    behind = _events(trainer.get("first/events", **{"last-event-id": told[3][0]}).text)
    assert behind == told[4:]
    assert trainer.get("first/events", **{"last-event-id": told[-1][0]}).status_code == 204
    assert httpx.get(f"{trainer.jobs}/first/events", headers={"last-event-id": "x"}).status_code == 422


def _check_log(trainer: TrainerUnderTest) -> None:
    whole = trainer.get("first/logs?tail=1000000")
    lines = whole.text.splitlines()
    assert any("training from version 0 to 2" in line for line in lines)
    assert trainer.get("first/logs?tail=2").text.splitlines() == lines[-2:]
    assert trainer.get(f"first/logs?offset={whole.headers['x-log-offset']}").text == ""
    followed = _events(trainer.get("first/logs?follow=true&tail=3").text, decode=False)
    assert [kind for _, kind, _ in followed] == ["log"]
    assert followed[0][0] == whole.headers["x-log-offset"]
    assert str(followed[0][2]).splitlines() == lines[-3:]


def _events(text: str, decode: bool = True) -> list[tuple[str, str, object]]:
    """(id, kind, payload) of every server-sent event."""
    events = []
    for block in text.split("\n\n"):
        fields: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, _, value = line.partition(": ")
            fields.setdefault(name, []).append(value)
        if "data" in fields:
            data = "\n".join(fields["data"])
            events.append((fields["id"][0], fields["event"][0], json.loads(data) if decode else data))
    return events
