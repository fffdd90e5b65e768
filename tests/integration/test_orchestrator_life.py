"""The orchestrator's life as a process: when it waits, starts over, refuses and ends."""

import signal
import time

import httpx

from shared.schemas.job import JobState
from tests.orchestrator_stack import Stack, open_sessions, read_groups, start_orchestrator


def test_a_trainer_that_goes_back_gets_groups_of_the_older_version_again(stack: Stack) -> None:
    """A group that waits for weights which no longer exist must not block the job."""
    stack.publish(0)
    stack.channel.set_policy_version(1)  # the servers still claim 0, so groups of step 1 wait
    with start_orchestrator(stack) as (_, url):
        assert len(read_groups(stack, 0)) == 3
        _wait_for_phase(url, "rolling")
        stack.publish(0)
        _wait_for_phase(url, "waiting")
        stack.publish(1)
        groups = read_groups(stack, 1)
        assert len(groups) == 3
        assert {int(step.policy_versions.min()) for group in groups for e in group.episodes for step in e.steps} == {1}


def test_a_resumed_job_is_not_taken_for_the_one_that_ended(stack: Stack) -> None:
    """The trainer of a resumed job starts more slowly than the orchestrator, and finds the old state in Redis."""
    stack.channel.set_state(JobState.FAILED)
    with start_orchestrator(stack) as (process, url):
        while not _answers(url):
            time.sleep(0.05)
        time.sleep(0.5)
        assert process.poll() is None
        stack.publish(0)
        stack.channel.set_state(JobState.RUNNING)
        assert len(read_groups(stack, 0)) == 3
        stack.channel.set_state(JobState.FAILED)
        assert process.wait(15) == 0


def _wait_for_phase(url: str, phase: str) -> None:
    deadline = time.monotonic() + 60
    while (found := httpx.get(url + "/v1/status").json()["phase"]) != phase:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url + "/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_a_recipe_that_does_not_fit_the_servers_ends_in_an_error_that_names_the_field(stack: Stack) -> None:
    stack.recipe.write_text(
        stack.recipe.read_text().replace('name = "maze"\neval', 'name = "maze"\nsplit = "tarin"\neval')
    )
    with start_orchestrator(stack) as (process, _):
        assert process.wait(20) == 1
    assert "environments.0.split = 'tarin'" in (stack.folder / "orchestrator.log").read_text()


def test_ctrl_c_ends_it_and_closes_its_sessions(stack: Stack) -> None:
    stack.publish(0)
    stack.control(fail=-1, status=503)
    before = open_sessions(stack)
    with start_orchestrator(stack) as (process, url):
        deadline = time.monotonic() + 60
        while not _rolling(url) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert open_sessions(stack) > before
        process.send_signal(signal.SIGINT)
        assert process.wait(15) in {0, -signal.SIGINT}
    assert open_sessions(stack) == before


def _rolling(url: str) -> bool:
    try:
        return bool(httpx.get(url + "/v1/status").json()["episodes_in_flight"])
    except httpx.TransportError:
        return False
