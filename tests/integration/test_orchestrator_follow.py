"""An orchestrator as a long-running service: it takes the jobs from Redis, one after the other."""

import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from shared.buffer import EventReader, JobStore
from shared.recipe import load_recipe
from shared.schemas.job import JobState
from tests.orchestrator_stack import Stack, make_stack, read_groups, start_orchestrator
from tests.processes import free_port


@pytest.fixture
def store(stack: Stack) -> Iterator[JobStore]:
    """The jobs, as the trainer service keeps them."""
    made = JobStore(stack.redis_url)
    yield made
    if (left := made.active()) is not None:
        made.transition(left, JobState.CANCELLED)
    made.close()


def _submit(stack: Stack, store: JobStore, name: str, old: str = "", new: str = "") -> Stack:
    """A job of that name in the store; ``new`` stands for ``old`` in its recipe."""
    job = make_stack(stack.folder, f"{stack.job}-{name}", stack.redis_url, stack.env_urls, stack.policy_url)
    job.recipe.write_text(job.recipe.read_text().replace(old, new))
    store.add(job.job, load_recipe(job.recipe))
    return job


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def _status(url: str) -> dict[str, object]:
    try:
        found: dict[str, object] = httpx.get(url + "/v1/status").json()
    except httpx.TransportError:
        return {}
    return found


def test_one_job_after_the_other(stack: Stack, store: JobStore) -> None:
    first = _submit(stack, store, "first")
    with start_orchestrator(stack, follow=True) as (process, url):
        _wait(lambda: _status(url).get("phase") == "idle")
        store.transition(first.job, JobState.RUNNING)
        first.publish(0)
        assert len(read_groups(first, 0)) == 3
        status = _status(url)
        assert (status["job"], status["groups_added"]) == (first.job, 3)
        store.transition(first.job, JobState.COMPLETED)
        _wait(lambda: _status(url).get("phase") == "idle")

        second = _submit(stack, store, "second")
        store.transition(second.job, JobState.RUNNING)
        second.publish(0)
        assert len(read_groups(second, 0)) == 3
        assert _status(url)["groups_added"] == 3, "each job is counted from zero"
        assert process.poll() is None


def test_jobs_that_cannot_be_served_are_failed_and_the_service_lives_on(stack: Stack, store: JobStore) -> None:
    environment = _submit(stack, store, "sea", 'name = "maze"\neval', 'name = "atlantis"\neval')
    model = _submit(stack, store, "model", 'path = "model"', 'path = "nowhere"')
    with start_orchestrator(stack, follow=True) as (process, _):
        for wrong, reason in ((environment, "environments.0.name = 'atlantis'"), (model, "nowhere")):
            store.transition(wrong.job, JobState.RUNNING)
            _wait(lambda: store.active() is None)
            failed = store.get(wrong.job)
            assert failed is not None
            assert (failed.state, reason in (failed.reason or "")) == (JobState.FAILED, True), failed.reason
            told = [event.payload for event in EventReader(stack.redis_url, wrong.job).read() if event.kind == "state"]
            assert reason in str(told[-1]["reason"])
        assert process.poll() is None


def test_a_job_that_is_no_longer_the_active_one_is_left_alone(stack: Stack, store: JobStore) -> None:
    """A trainer service that stops leaves its job neither over nor active; a cancelled one is followed by the next."""
    first, second = _submit(stack, store, "first"), _submit(stack, store, "second")
    stack.control(fail=-1, status=503)
    store.transition(first.job, JobState.RUNNING)
    first.publish(0)
    with start_orchestrator(stack, follow=True) as (_, url):
        _wait(lambda: _status(url).get("phase") == "rolling")
        store.transition(first.job, JobState.CANCELLED)
        _wait(lambda: _status(url).get("phase") == "idle")
        stack.control(fail=0)
        store.transition(second.job, JobState.RUNNING)
        second.publish(0)
        assert len(read_groups(second, 0)) == 3
        assert _status(url)["job"] == second.job
    assert EventReader(stack.redis_url, first.job).read()[-1].payload["state"] == "cancelled"


def test_ready_means_that_redis_and_the_servers_can_be_reached(stack: Stack) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    incomplete = make_stack(stack.folder, stack.job, stack.redis_url, stack.env_urls, nowhere)
    with start_orchestrator(incomplete, follow=True) as (process, url):
        _wait(lambda: bool(_status(url)))
        answer = httpx.get(url + "/readyz")
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/not-ready")
        assert nowhere in answer.json()["detail"]
        assert stack.env_urls not in answer.json()["detail"]
        process.terminate()
        process.wait(10)
    with start_orchestrator(stack, follow=True) as (_, url):
        _wait(lambda: bool(_status(url)))
        assert httpx.get(url + "/readyz").status_code == 200
        assert _status(url)["job"] is None
