"""What ends a training job before its end, and how it goes on: cancel, kill -9, restarts of the service."""

import os
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest

from services.trainer.checkpoints import read_state
from shared.buffer import EventReader
from shared.schemas.job import JobState
from tests.job_service import JobSystem
from tests.training import metrics_of

pytestmark = pytest.mark.slow

STOP_S = 10.0
"""The longest that a stop may take."""


def test_a_cancelled_job_stops_at_once_and_goes_on_when_resumed(system: JobSystem) -> None:
    job = "cancelled"
    with system.trainer() as trainer:
        trainer.submit(system.recipe(steps=3, checkpoint_every=100), job).raise_for_status()
        system.add_groups(job, range(1))
        trainer.wait_for_version(job, 1)
        pid, start = trainer.worker_pid(), time.monotonic()
        assert trainer.post(f"{job}/cancel").json()["state"] == "cancelled"
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() - start < STOP_S
            time.sleep(0.05)
        assert system.store().active() is None
        assert trainer.post(f"{job}/cancel").status_code == 200
        _check_checkpoints(system, job, [1])

        assert trainer.post(f"{job}/resume").json()["state"] in ("queued", "running")
        system.add_groups(job, range(1, 3))
        trainer.wait_for(job, JobState.COMPLETED)
        assert trainer.post(f"{job}/resume").status_code == 409
        refused = trainer.post(f"{job}/cancel")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/illegal-transition")
    assert [line["step"] for line in metrics_of(system.runs / job)] == [0, 1, 2]
    _check_checkpoints(system, job, [1, 3])


def test_a_killed_worker_is_started_again_and_nothing_is_lost(system: JobSystem) -> None:
    job = "killed"
    with system.trainer() as trainer:
        trainer.submit(system.recipe(steps=4, keep=10), job).raise_for_status()
        system.add_groups(job, range(2))
        trainer.wait_for_version(job, 2)
        os.kill(trainer.worker_pid(), signal.SIGKILL)
        system.add_groups(job, range(2, 4))
        done = trainer.wait_for(job, JobState.COMPLETED)
        assert done.policy_version == 4
        assert "gagpo_trainer_worker_restarts_total 1.0" in httpx.get(f"{trainer.process.url}/metrics").text
    states = [event.payload for event in EventReader(system.redis_url, job).read() if event.kind == "state"]
    assert [state["state"] for state in states] == ["queued", "running", "interrupted", "running", "completed"]
    assert "SIGKILL" in str(states[2]["reason"])
    assert [line["step"] for line in metrics_of(system.runs / job)] == [0, 1, 2, 3]
    _check_checkpoints(system, job, [1, 2, 3, 4])


def test_a_worker_that_dies_again_and_again_fails_the_job_with_its_last_words(system: JobSystem) -> None:
    job = "hopeless"
    with system.trainer(GAGPO_TRAINER_RESTARTS="1") as trainer:
        recipe = system.recipe(steps=2)
        trainer.submit(recipe, job).raise_for_status()
        for _ in range(2):
            trainer.wait_for(job, JobState.RUNNING)
            os.kill(_eventually(trainer.worker_pid), signal.SIGKILL)
            time.sleep(1.0)
        failed = trainer.wait_for(job, JobState.FAILED)
        assert failed.reason is not None
        assert failed.reason.startswith("the training process was ended by SIGKILL")


def test_an_error_in_the_worker_fails_the_job_with_its_message(system: JobSystem) -> None:
    job = "no-groups"
    with system.trainer(GAGPO_TRAINER_STEP_DEADLINE_S="0.5") as trainer:
        trainer.submit(system.recipe(steps=2), job).raise_for_status()
        failed = trainer.wait_for(job, JobState.FAILED)
        assert failed.reason is not None
        first, *rest = failed.reason.splitlines()
        assert first.startswith("BufferTimeoutError: 0 of 4 groups of training step 0 came within")
        assert any("Traceback" in line or "BufferTimeoutError" in line for line in rest)


def test_a_stopped_service_interrupts_its_job_and_continues_at_its_next_start(system: JobSystem) -> None:
    job = "drained"
    with system.trainer() as trainer:
        trainer.submit(system.recipe(steps=3, checkpoint_every=100), job).raise_for_status()
        trainer.submit(system.recipe(steps=1), "behind-it").raise_for_status()
        system.add_groups(job, range(1))
        trainer.wait_for_version(job, 1)
        pid = trainer.worker_pid()
        follower = threading.Thread(target=_read_all, args=(f"{trainer.jobs}/{job}/events",))
        follower.start()  # a client that follows must not hold up the end
        assert trainer.stop() < STOP_S
        assert not Path(f"/proc/{pid}").exists()
        follower.join(5)
        interrupted = system.store().get(job)
        assert interrupted is not None
        assert (interrupted.state, interrupted.reason) == (JobState.INTERRUPTED, "the trainer service was stopped")
        assert system.store().active() == job, "the others may go on preparing groups"
        _check_checkpoints(system, job, [1])
    system.add_groups(job, range(1, 3))
    system.add_groups("behind-it", range(1))
    with system.trainer() as trainer:
        trainer.wait_for(job, JobState.COMPLETED)
        trainer.wait_for("behind-it", JobState.COMPLETED)
    assert [line["step"] for line in metrics_of(system.runs / job)] == [0, 1, 2]


def test_a_killed_service_leaves_no_worker_and_its_successor_goes_on(system: JobSystem) -> None:
    job = "orphaned"
    with system.trainer() as trainer:
        trainer.submit(system.recipe(steps=3), job).raise_for_status()
        system.add_groups(job, range(1))
        trainer.wait_for_version(job, 1)
        pid = trainer.worker_pid()
        os.kill(pid, signal.SIGSTOP)  # a worker that cannot hear that it should stop
        trainer.process.kill()
    try:
        with system.trainer() as trainer:
            time.sleep(3)
            waiting = trainer.show(job)
            assert (waiting.state, waiting.reason) == (JobState.INTERRUPTED, "the trainer service ended unexpectedly")
            os.kill(pid, signal.SIGCONT)
            system.add_groups(job, range(1, 3))
            trainer.wait_for(job, JobState.RUNNING)
            assert trainer.worker_pid() != pid
            trainer.wait_for(job, JobState.COMPLETED)
    finally:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
    assert [line["step"] for line in metrics_of(system.runs / job)] == [0, 1, 2]


def test_a_second_service_on_the_same_folder_waits_for_the_first_to_end(system: JobSystem) -> None:
    job = "shared"
    with system.trainer() as first, system.trainer() as other:
        other.submit(system.recipe(steps=1), job).raise_for_status()
        first.wait_for(job, JobState.RUNNING)
        pid = _eventually(first.worker_pid)
        assert not _children(other.process.pid)
        first.stop()
        assert not Path(f"/proc/{pid}").exists()
        system.add_groups(job, range(1))
        other.wait_for(job, JobState.COMPLETED)


def _check_checkpoints(system: JobSystem, job: str, versions: list[int]) -> None:
    folder = system.runs / job / "checkpoints"
    assert [path.name for path in sorted(folder.iterdir())] == [f"step-{version:06d}" for version in versions]
    used = [group for path in sorted(folder.iterdir()) for group in read_state(path).consumed]
    assert used == [(step, index) for step in range(versions[-1]) for index in range(4)], "each group once"


def _eventually(ask, deadline_s: float = 20.0):  # type: ignore[no-untyped-def]
    give_up = time.monotonic() + deadline_s
    while True:
        try:
            return ask()
        except AssertionError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _read_all(url: str) -> None:
    try:
        with httpx.stream("GET", url, timeout=30) as answer:
            for _ in answer.iter_bytes():
                pass
    except httpx.TransportError:
        pass
