"""The job store on a real Redis: once each, in order, and only legal changes, whoever else is at it."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagpo.redis_server import RedisServer, start_redis
from shared.buffer import (
    AsyncJobStore,
    EventReader,
    IllegalTransitionError,
    JobChannel,
    JobConflictError,
    JobNotOverError,
    JobStore,
    UnknownJobError,
)
from shared.recipe import Recipe
from shared.schemas.job import TRANSITIONS, JobState
from tests.training import add_groups, training_group

RECIPE = Recipe.model_validate(
    {"name": "maze", "model": {"path": "/models/tiny"}, "environments": [{"name": "maze"}], "training": {"steps": 7}}
)
PATHS = {
    JobState.QUEUED: (),
    JobState.RUNNING: (JobState.RUNNING,),
    JobState.INTERRUPTED: (JobState.RUNNING, JobState.INTERRUPTED),
    JobState.COMPLETED: (JobState.RUNNING, JobState.COMPLETED),
    JobState.FAILED: (JobState.FAILED,),
    JobState.CANCELLED: (JobState.CANCELLED,),
}
"""How a new job gets to each state."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def store(server: RedisServer) -> Iterator[JobStore]:
    store = JobStore(server.url)
    store._redis.flushdb()
    yield store
    store.close()


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobState, JobState)))
def test_a_state_changes_only_as_the_table_says(store: JobStore, before: JobState, after: JobState) -> None:
    store.add("one", RECIPE)
    for state in PATHS[before]:
        store.transition("one", state)
    if after in TRANSITIONS[before]:
        store.transition("one", after, "because")
        found = store.get("one")
        assert found is not None
        assert (found.state, found.reason) == (after, "because")
    else:
        with pytest.raises(IllegalTransitionError, match=f"is {before} and can't become {after}"):
            store.transition("one", after)
        found = store.get("one")
        assert found is not None
        assert found.state is before


def test_a_job_is_added_once_and_an_id_belongs_to_one_recipe(store: JobStore, server: RedisServer) -> None:
    assert store.add("one", RECIPE)
    assert not store.add("one", RECIPE)
    with pytest.raises(JobConflictError, match="another recipe"):
        store.add("one", RECIPE.model_copy(update={"seed": 5}))
    JobChannel(server.url, "by-hand").set_state(JobState.RUNNING)
    with pytest.raises(JobConflictError, match="not submitted as a job"):
        store.add("by-hand", RECIPE)
    assert [job.id for job in store.all()] == ["one"]
    assert store.recipe("one") == RECIPE
    assert store.recipe("none") is None
    with pytest.raises(UnknownJobError):
        store.transition("none", JobState.RUNNING)


def test_turns_go_by_submission_and_a_resumed_job_waits_at_the_end(store: JobStore) -> None:
    for name in ("one", "two", "three"):
        store.add(name, RECIPE)
    assert _positions(store) == {"one": 0, "two": 1, "three": 2}
    assert store.turn() == "one"
    store.transition("one", JobState.CANCELLED)
    store.transition("one", JobState.QUEUED)
    assert _positions(store) == {"two": 0, "three": 1, "one": 2}
    assert [job.id for job in store.all()] == ["three", "two", "one"]
    store.transition("three", JobState.RUNNING)
    store.transition("three", JobState.INTERRUPTED)
    assert store.turn() == "three", "an interrupted job goes on before the others"


def test_the_active_job_is_the_one_that_began_and_is_not_over(store: JobStore) -> None:
    store.add("one", RECIPE)
    store.add("two", RECIPE)
    assert store.active() is None
    store.transition("one", JobState.RUNNING)
    assert store.active() == "one"
    store.transition("two", JobState.CANCELLED)
    store.transition("one", JobState.INTERRUPTED)
    assert store.active() == "one"
    store.transition("one", JobState.RUNNING)
    store.transition("one", JobState.COMPLETED)
    assert store.active() is None


def test_a_start_takes_the_policy_version_back_until_the_weights_are_pushed(
    store: JobStore, server: RedisServer
) -> None:
    """Between two jobs, or after a resume, the policy servers hold the weights of whoever pushed last."""
    store.add("one", RECIPE)
    store.transition("one", JobState.RUNNING)
    channel = JobChannel(server.url, "one")
    channel.set_policy_version(5)
    for state in (JobState.CANCELLED, JobState.QUEUED):
        store.transition("one", state)
        assert channel.policy_version() == 5
    store.transition("one", JobState.RUNNING)
    assert channel.policy_version() is None
    again = store.get("one")
    assert again is not None
    assert again.policy_version == 5, "so many steps are done"


def test_times_and_events_tell_the_story(store: JobStore, server: RedisServer) -> None:
    store.add("one", RECIPE)
    store.transition("one", JobState.RUNNING)
    store.transition("one", JobState.FAILED, 'out of "memory"')
    failed = store.get("one")
    assert failed is not None
    assert failed.started_at is not None
    assert failed.ended_at is not None
    assert failed.submitted_at <= failed.started_at <= failed.ended_at
    assert (failed.name, failed.steps, failed.policy_version) == ("maze", 7, 0)
    store.transition("one", JobState.QUEUED)
    JobChannel(server.url, "one").set_policy_version(3)
    again = store.get("one")
    assert again is not None
    assert (again.ended_at, again.reason, again.policy_version) == (None, None, 3)
    told = [event.payload for event in EventReader(server.url, "one").read() if event.kind == "state"]
    assert [payload["state"] for payload in told] == ["queued", "running", "failed", "queued"]
    assert told[2] == {"state": "failed", "before": "running", "reason": 'out of "memory"'}


def test_the_trainer_of_a_submitted_job_does_not_decide_its_state(store: JobStore, server: RedisServer) -> None:
    store.add("one", RECIPE)
    channel = JobChannel(server.url, "one")
    channel.set_state(JobState.COMPLETED)
    assert channel.state() is JobState.QUEUED


async def test_of_many_who_change_a_job_at_once_one_succeeds(store: JobStore, server: RedisServer) -> None:
    store.add("one", RECIPE)
    stores = [AsyncJobStore(server.url) for _ in range(8)]
    wanted = [JobState.RUNNING, JobState.CANCELLED] * 4
    outcomes = await asyncio.gather(
        *(one.transition("one", to) for one, to in zip(stores, wanted, strict=True)), return_exceptions=True
    )
    # A cancellation may come behind the start, and then nothing comes any more.
    succeeded = [to for to, outcome in zip(wanted, outcomes, strict=True) if outcome is None]
    assert succeeded in ([JobState.CANCELLED], [JobState.RUNNING, JobState.CANCELLED])
    assert all(isinstance(outcome, IllegalTransitionError) for outcome in outcomes if outcome is not None)
    added = await asyncio.gather(*(one.add("two", RECIPE) for one in stores))
    assert sorted(added) == [False] * 7 + [True]
    assert [job.id for job in await stores[0].all()] == ["two", "one"]
    assert await stores[0].turn() == "two"
    assert await stores[0].active() is None
    assert await stores[0].recipe("two") == RECIPE
    for one in stores:
        await one.close()


@pytest.mark.parametrize("state", JobState)
def test_only_a_job_that_is_over_is_removed_and_then_nothing_of_it_is_left(
    store: JobStore, server: RedisServer, state: JobState
) -> None:
    for job in ("one", "two"):
        store.add(job, RECIPE)
        for step in PATHS[state] if job == "one" else ():
            store.transition(job, step)
        add_groups(server.url, job, [training_group(0, 0)])
        channel = JobChannel(server.url, job)
        channel.announce_weights(1, "digest")
        channel.set_policy_version(1)
    kept = set(store._redis.keys("gagpo:*"))
    if state.over:
        store.remove("one")
        assert [job.id for job in store.all()] == ["two"]
        expiring = {key for key in store._redis.keys("gagpo:one:*") if store._redis.ttl(key) > 0}
        assert (
            set(store._redis.keys("gagpo:*")) == {key for key in kept if not key.startswith(b"gagpo:one:")} | expiring
        )
        assert all(key.startswith((b"gagpo:one:figures:", b"gagpo:one:frontier")) for key in expiring)
        with pytest.raises(UnknownJobError):
            store.remove("one")
        assert store.add("one", RECIPE.model_copy(update={"seed": 5})), "the id is free again"
        assert EventReader(server.url, "one").read()[0].payload["state"] == "queued"
    else:
        with pytest.raises(JobNotOverError, match=f"job one is {state} and can't be removed before it is over"):
            store.remove("one")
        assert set(store._redis.keys("gagpo:*")) == kept


def test_a_group_that_comes_after_its_job_was_removed_is_not_kept(store: JobStore, server: RedisServer) -> None:
    store.add("one", RECIPE)
    store.transition("one", JobState.CANCELLED)
    store.remove("one")
    add_groups(server.url, "one", [training_group(0, 0)])
    assert not store._redis.exists("gagpo:one:groups", "gagpo:one:seen", "gagpo:one:held_bytes")
    store.add("one", RECIPE)
    add_groups(server.url, "one", [training_group(0, 0)])
    assert store._redis.xlen("gagpo:one:groups") == 1, "the next job of that id gets its own"


async def test_the_asyncio_store_removes_alike(store: JobStore, server: RedisServer) -> None:
    store.add("one", RECIPE)
    other = AsyncJobStore(server.url)
    with pytest.raises(JobNotOverError):
        await other.remove("one")
    store.transition("one", JobState.CANCELLED)
    await other.remove("one")
    assert store.get("one") is None
    await other.close()


def test_jobs_outlive_redis(tmp_path: Path) -> None:
    with start_redis(tmp_path) as server:
        JobStore(server.url).add("one", RECIPE)
    with start_redis(tmp_path) as server:
        found = JobStore(server.url).get("one")
        assert found is not None
        assert found.state is JobState.QUEUED


def _positions(store: JobStore) -> dict[str, int | None]:
    queued = [job for job in store.all() if job.state is JobState.QUEUED]
    return {job.id: job.position for job in sorted(queued, key=lambda job: job.position or 0)}
