"""Several orchestrators on one job: each group has one maker, and none is lost with it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack

import httpx
import pytest

from shared.buffer import EventReader, GroupLeases, GroupReader, GroupWriter, JobKeys, connect
from shared.schemas.job import JobState
from tests.orchestrator_stack import Stack, open_sessions, start_orchestrator
from tests.trajectories import make_group

STEP = [(0, index) for index in range(6)]
MANY = "groups_per_step = 3\ngroup_size = 4\nconcurrency = 6"
LEASE_S = 2.0
MORE = "groups_per_step = 12\ngroup_size = 4\nconcurrency = 8"


@pytest.fixture
async def pair(stack: Stack) -> AsyncIterator[tuple[GroupLeases, GroupLeases]]:
    """Two holders on one job, whose leases live for `LEASE_S`."""
    async with (
        GroupLeases(stack.redis_url, stack.job, LEASE_S, "one") as one,
        GroupLeases(stack.redis_url, stack.job, LEASE_S, "other") as other,
    ):
        yield one, other


async def test_a_lease_keeps_others_off_until_it_is_given_back(pair: tuple[GroupLeases, GroupLeases]) -> None:
    one, other = pair
    assert await one.take(STEP, room=3, held=0) == STEP[:3]
    assert await other.take(STEP, room=9, held=0) == STEP[3:]
    assert await one.take(STEP[3:], room=9, held=3) == []
    await other.give_back(STEP[:4])
    assert await one.take(STEP[3:], room=9, held=2) == [STEP[3]]


async def test_asking_again_after_a_lost_answer_gives_the_same(pair: tuple[GroupLeases, GroupLeases]) -> None:
    one, _ = pair
    assert await one.take(STEP, room=2, held=0) == STEP[:2]
    assert await one.take(STEP, room=2, held=0) == STEP[:2]


async def test_what_is_missing_is_shared_out_evenly(pair: tuple[GroupLeases, GroupLeases]) -> None:
    one, other = pair
    await other.renew([])
    assert await one.take(STEP, room=100, held=0) == STEP[:3]
    assert await other.take(STEP, room=100, held=0) == STEP[3:]
    await other.give_back(STEP[3:])
    await other.leave()
    assert await one.take(STEP[3:], room=100, held=3) == STEP[3:]


async def test_leases_of_the_dead_run_out_and_renewed_ones_do_not(pair: tuple[GroupLeases, GroupLeases]) -> None:
    one, other = pair
    await one.take(STEP[:4], room=4, held=0)
    for _ in range(4):
        await asyncio.sleep(0.3 * LEASE_S)
        assert await one.renew(STEP[:2]) == []
    assert await other.take(STEP[:4], room=4, held=0) == STEP[2:4], "the third and fourth were not renewed"
    assert await one.renew(STEP[:4]) == STEP[2:4], "it is told what it lost"
    await asyncio.sleep(1.2 * LEASE_S)
    assert await other.take(STEP[:2], room=4, held=0) == STEP[:2]


async def test_a_group_in_the_buffer_or_below_the_frontier_is_not_leased(
    pair: tuple[GroupLeases, GroupLeases], stack: Stack
) -> None:
    async with GroupWriter(stack.redis_url, stack.job, 0) as writer:
        await writer.add(make_group(1, 2))
        await writer.drop(1, 0, "for the test")
    with GroupReader(stack.redis_url, stack.job) as reader:
        reader.release(1)
    candidates = [(step, index) for step in range(2) for index in range(4)]
    assert await pair[0].take(candidates, room=9, held=0) == [(1, 1), (1, 3)]


def _rewrite(stack: Stack) -> None:
    stack.recipe.write_text(stack.recipe.read_text().replace(MANY, MORE))
    stack.publish(0)


def _groups_added(url: str) -> int:
    return int(httpx.get(url + "/v1/status").json()["groups_added"])


def _events(stack: Stack, kind: str) -> list[dict[str, object]]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        events = [e.payload for e in EventReader(stack.redis_url, stack.job).read() if e.kind == kind]
        if events:
            return list(events)  # type: ignore[arg-type]
        time.sleep(0.05)
    return []


def test_two_share_a_step_and_its_figures_are_told_once_and_whole(stack: Stack) -> None:
    _rewrite(stack)
    with start_orchestrator(stack) as (_, one), start_orchestrator(stack) as (_, other):
        with GroupReader(stack.redis_url, stack.job) as reader:
            assert len(reader.read_step(0, 12, 40)) == 12
            _wait_ready(one, other)
            stack.publish(1)
            groups = reader.read_step(1, 12, 40)
        added = _groups_added(one), _groups_added(other)
        assert sum(added) == 24
        assert min(added) > 3
        (told,) = [event for event in _events(stack, "rollout") if event["step"] == 1]
    steps = [step for group in groups for episode in group.episodes for step in episode.steps]
    assert (told["groups"], told["dropped"], told["episodes"]) == (12, 0, 48)
    assert told["tokens"] == sum(len(step.token_ids) for step in steps)
    made = Counter((event["step"], event["index"]) for event in _events(stack, "group"))
    assert set(made.values()) == {1}


def _wait_ready(*urls: str) -> None:
    deadline = time.monotonic() + 60
    for url in urls:
        while True:
            try:
                if httpx.get(url + "/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_no_group_is_lost_or_made_twice_when_one_of_two_is_killed(stack: Stack) -> None:
    _rewrite(stack)
    with ExitStack() as running, GroupReader(stack.redis_url, stack.job) as reader:
        stack.control(fail=-1, status=503)
        (victim, one), (_, other) = (running.enter_context(start_orchestrator(stack)) for _ in range(2))
        _wait_ready(one, other)
        _wait_until_rolling(one, other)
        held = httpx.get(one + "/v1/status").json()["running"]
        assert held
        victim.kill()
        victim.wait(10)
        stack.control(fail=0)
        groups = reader.read_step(0, 12, 40)
        assert [group.index for group in groups] == list(range(12))
        assert _groups_added(other) == 12
        (told,) = _events(stack, "rollout")
        assert (told["groups"], told["episodes"]) == (12, 48)
        made = Counter(event["index"] for event in _events(stack, "group"))
        assert made == Counter(range(12))
        stack.channel.set_state(JobState.COMPLETED)


def test_what_is_given_back_at_a_stop_is_made_by_the_other_at_once(stack: Stack) -> None:
    _rewrite(stack)
    before = open_sessions(stack)
    with ExitStack() as running, GroupReader(stack.redis_url, stack.job) as reader:
        stack.control(fail=-1, status=503)
        (leaver, one), (_, other) = (running.enter_context(start_orchestrator(stack)) for _ in range(2))
        _wait_ready(one, other)
        _wait_until_rolling(one, other)
        asked = time.monotonic()
        leaver.terminate()
        leaver.wait(15)
        assert time.monotonic() - asked < 10
        leases = connect(stack.redis_url).hvals(JobKeys(stack.job).leases)
        assert len({lease.split()[1] for lease in leases}) == 1, "only the other's leases are left"
        stack.control(fail=0)
        assert len(reader.read_step(0, 12, 40)) == 12
        stack.channel.set_state(JobState.COMPLETED)
        time.sleep(1)
    assert open_sessions(stack) == before


def _wait_until_rolling(*urls: str) -> None:
    deadline = time.monotonic() + 60
    while not all(httpx.get(url + "/v1/status").json()["episodes_in_flight"] for url in urls):
        assert time.monotonic() < deadline
        time.sleep(0.05)
