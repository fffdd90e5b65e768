"""The buffer against a real server: once each, bounded, nothing lost, and what a crash of either side leaves."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from gagpo.redis_server import RedisServer, start_redis
from shared.buffer import (
    AsyncEventReader,
    AsyncJobChannel,
    BufferTimeoutError,
    EventReader,
    EventWriter,
    EvictionPolicyError,
    GroupReader,
    GroupWriter,
    JobChannel,
    JobKeys,
    ReleasedStepError,
    check_eviction_policy,
    connect_async,
    encode_group,
)
from shared.schemas.job import JobState
from tests.trajectories import assert_same_group, make_group

JOB = "job-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path) as running:
        yield running


async def _add(url: str, *places: tuple[int, int], limit: int = 0) -> list[bool]:
    async with GroupWriter(url, JOB, limit) as writer:
        return [await writer.add(make_group(step, index)) for step, index in places]


async def test_a_group_is_added_once_whoever_retries(server: RedisServer) -> None:
    assert await _add(server.url, (0, 0), (0, 1)) == [True, True]
    assert await _add(server.url, (0, 0), (0, 1)) == [False, False]
    both = await asyncio.gather(*(_add(server.url, (0, 2)) for _ in range(8)))
    assert sorted(outcome[0] for outcome in both) == [False] * 7 + [True]
    with GroupReader(server.url, JOB) as reader:
        assert [group.index for group in reader.read_step(0, 3, 5)] == [0, 1, 2]
    assert Redis.from_url(server.url).xlen(JobKeys(JOB).groups) == 3


async def test_groups_come_back_whole_and_by_index(server: RedisServer) -> None:
    await _add(server.url, (0, 1), (1, 0), (0, 0))
    with GroupReader(server.url, JOB) as reader:
        for index, group in enumerate(reader.read_step(0, 2, 5)):
            assert_same_group(group, make_group(0, index))
        assert_same_group(reader.read_step(1, 1, 5)[0], make_group(1, 0))


async def test_the_reader_waits_for_the_last_group_and_tells_how_many_are_there(server: RedisServer) -> None:
    await _add(server.url, (0, 0))
    seen: list[int] = []
    later = threading.Timer(1.2, lambda: asyncio.run(_add(server.url, (0, 1))))
    later.start()
    with GroupReader(server.url, JOB) as reader:
        groups = await asyncio.to_thread(reader.read_step, 0, 2, 10, seen.append)
    later.join()
    assert len(groups) == 2
    assert seen and set(seen) == {1}


def test_a_step_that_never_comes_ends_in_a_timeout(server: RedisServer) -> None:
    with GroupReader(server.url, JOB) as reader, pytest.raises(BufferTimeoutError, match="0 of 2 groups"):
        reader.read_step(0, 2, 0.6)


async def test_a_dropped_group_is_not_waited_for_and_cannot_come_later(server: RedisServer) -> None:
    await _add(server.url, (0, 0))
    async with GroupWriter(server.url, JOB, 0) as writer:
        assert await writer.drop(0, 1, "env server away")
        assert not await writer.add(make_group(0, 1))
        assert not await writer.drop(0, 0, "too late")
    with GroupReader(server.url, JOB) as reader:
        assert [group.index for group in reader.read_step(0, 2, 5)] == [0]
        assert reader.dropped(0) == {1: "env server away"}


async def test_the_figures_of_a_step_are_handed_out_once_and_whole(server: RedisServer) -> None:
    async with GroupWriter(server.url, JOB, 0) as writer, GroupWriter(server.url, JOB, 0) as other:
        await writer.add(make_group(0, 0), figures=b"first")
        await other.drop(0, 2, "env server away", figures=b"third")
        assert await writer.take_figures(0, 3) == []
        await other.add(make_group(0, 1), figures=b"second")
        await other.add(make_group(0, 1), figures=b"again")
        taken = await asyncio.gather(*(one.take_figures(0, 3) for one in (writer, other) for _ in range(3)))
        assert sorted(map(len, taken)) == [0, 0, 0, 0, 0, 3]
        assert sorted(max(taken, key=len)) == [b"first", b"second", b"third"]


async def test_a_jobs_weights_are_told_from_others_by_their_digest(server: RedisServer) -> None:
    trainer, orchestrator = JobChannel(server.url, JOB), AsyncJobChannel(server.url, JOB)
    assert await orchestrator.holds_weights(7, "whatever"), "nothing is announced yet"
    for version in range(100):
        trainer.announce_weights(version, f"digest-{version}")
    assert await orchestrator.holds_weights(99, "digest-99")
    assert not await orchestrator.holds_weights(99, "another")
    assert not await orchestrator.holds_weights(100, "digest-100")
    trainer.announce_weights(50, "digest-50-again")
    assert await orchestrator.holds_weights(49, "digest-49")
    assert not await orchestrator.holds_weights(50, "digest-50")
    assert not await orchestrator.holds_weights(51, "digest-51"), "the trainer went back"
    trainer.close()
    await orchestrator.close()


async def test_release_deletes_frees_and_closes_the_steps_below(server: RedisServer) -> None:
    await _add(server.url, (0, 0), (0, 1), (1, 0), (2, 0))
    client = Redis.from_url(server.url)
    with GroupReader(server.url, JOB) as reader:
        reader.read_step(0, 2, 5)
        reader.read_step(1, 1, 5)
        assert reader.release(2) == 3
        assert client.xlen(JobKeys(JOB).groups) == 1
        assert reader.held_bytes() == len(encode_group(make_group(2, 0)))
        assert reader.frontier() == 2
        assert client.xpending(JobKeys(JOB).groups, "trainer")["pending"] == 1
        with pytest.raises(ReleasedStepError):
            reader.read_step(1, 1, 1)
    async with GroupWriter(server.url, JOB, 0) as writer:
        assert not await writer.add(make_group(1, 5))
        assert (await writer.state()).present == {2: frozenset({0})}
        assert await writer.present(2) == {0}
        with pytest.raises(ReleasedStepError):
            await writer.present(1)


async def test_a_reader_that_died_before_its_checkpoint_leaves_everything_to_the_next(server: RedisServer) -> None:
    await _add(server.url, (0, 0), (0, 1), (1, 0))
    dead = GroupReader(server.url, JOB, "dead")
    assert len(dead.read_step(0, 2, 5)) == 2
    dead.close()
    with GroupReader(server.url, JOB, "next") as reader:
        assert [group.index for group in reader.read_step(0, 2, 5)] == [0, 1]
        reader.release(1)
        assert [group.index for group in reader.read_step(1, 1, 5)] == [0]
        reader.rewind()
        assert [group.index for group in reader.read_step(1, 1, 5)] == [0]
        with pytest.raises(ReleasedStepError):
            reader.read_step(1, 1, 5)


async def test_a_full_buffer_holds_the_writer_until_there_is_room(server: RedisServer) -> None:
    size = len(encode_group(make_group(0, 0)))
    async with GroupWriter(server.url, JOB, int(2.5 * size)) as writer:
        await writer.add(make_group(0, 0))
        await writer.add(make_group(0, 1))
        with pytest.raises(BufferTimeoutError, match="buffer full"):
            await writer.add(make_group(1, 0), deadline_s=0.3)
        waiting = asyncio.create_task(writer.add(make_group(1, 0), deadline_s=20))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        with GroupReader(server.url, JOB) as reader:
            reader.read_step(0, 2, 5)
            reader.release(1)
        assert await asyncio.wait_for(waiting, 5)


async def test_the_step_that_the_trainer_waits_for_is_let_into_a_full_buffer(server: RedisServer) -> None:
    """No checkpoint covers steps 0 and 1 yet, so nothing is released: without the exception both sides would wait."""
    async with GroupWriter(server.url, JOB, len(encode_group(make_group(0, 0))) + 10) as writer:
        await writer.add(make_group(0, 0))
        with GroupReader(server.url, JOB) as reader:
            reader.read_step(0, 1, 5)
            read = asyncio.create_task(asyncio.to_thread(reader.read_step, 1, 1, 10))
            assert await writer.add(make_group(1, 0), deadline_s=5)
            assert len(await read) == 1


async def test_a_waiting_writer_can_be_cancelled(server: RedisServer) -> None:
    async with GroupWriter(server.url, JOB, 10) as writer:
        await writer.add(make_group(0, 0))
        waiting = asyncio.create_task(writer.add(make_group(1, 0)))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_both_ends_ride_out_a_crash_of_redis(server: RedisServer) -> None:
    await _add(server.url, (0, 0))
    with GroupReader(server.url, JOB) as reader:
        read = asyncio.create_task(asyncio.to_thread(reader.read_step, 0, 3, 30))
        await asyncio.sleep(0.3)
        os.kill(server.pid, signal.SIGKILL)
        server.stop()
        added = asyncio.create_task(_add(server.url, (0, 1), (0, 2)))
        await asyncio.sleep(0.7)
        with start_redis(server.folder, int(server.url.split(":")[2].split("/")[0])):
            assert await added == [True, True]
            assert [group.index for group in await read] == [0, 1, 2]


async def test_a_lost_consumer_group_is_made_again(server: RedisServer) -> None:
    with GroupReader(server.url, JOB) as reader:
        Redis.from_url(server.url).xgroup_destroy(JobKeys(JOB).groups, "trainer")
        await _add(server.url, (0, 0))
        assert len(reader.read_step(0, 1, 5)) == 1


async def test_events_are_read_in_order_and_followed(server: RedisServer) -> None:
    writer, reader = EventWriter(server.url, JOB), EventReader(server.url, JOB)
    assert reader.read() == []
    writer.emit("metrics", {"step": 1, "loss": float("nan")})
    writer.emit("state", {"state": "running"})
    first, second = reader.read()
    assert (first.kind, first.payload, second.payload) == ("metrics", {"step": 1, "loss": None}, {"state": "running"})
    assert abs(first.time - time.time()) < 60
    assert [event.id for event in reader.read(first.id)] == [second.id]
    assert [event.id for event in reader.follow(idle_s=0.1)] == [first.id, second.id]
    following = AsyncEventReader(server.url, JOB)
    assert [event.id async for event in following.follow(idle_s=0.1)] == [first.id, second.id]
    await following.close()
    writer.close()
    reader.close()


def test_events_are_trimmed(server: RedisServer) -> None:
    client = Redis.from_url(server.url)
    pipeline = client.pipeline()
    for _ in range(12_000):
        pipeline.xadd(JobKeys(JOB).events, {"kind": "metrics", "time": "0", "payload": "{}"})
    pipeline.execute()
    EventWriter(server.url, JOB).emit("metrics", {})
    assert client.xlen(JobKeys(JOB).events) <= 10_200


async def test_a_command_is_cancelled_wherever_it_is(server: RedisServer) -> None:
    """Connecting, sending or reading: a lost cancellation would leave a task that goes on for ever."""
    for turns_of_the_loop in range(16):
        client = connect_async(server.url, retry_deadline_s=0)
        command = asyncio.create_task(client.get("nothing"))
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        if not command.done():
            assert command.cancel()
            await asyncio.wait({command}, timeout=10)
            assert command.cancelled(), turns_of_the_loop
        assert await client.get("nothing") is None, "the connection has nobody else's reply"
        await client.aclose()


async def test_the_policy_version_is_waited_for(server: RedisServer) -> None:
    trainer, orchestrator = JobChannel(server.url, JOB), AsyncJobChannel(server.url, JOB)
    assert trainer.policy_version() is None
    assert trainer.state() is None
    with pytest.raises(BufferTimeoutError, match="policy version 1"):
        await orchestrator.wait_policy_version(1, 0.1)
    waiting = asyncio.create_task(orchestrator.wait_policy_version(1, 10))
    trainer.set_policy_version(0)
    await asyncio.sleep(0.2)
    assert not waiting.done()
    trainer.set_policy_version(2)
    assert await waiting == 2
    trainer.set_state(JobState.COMPLETED)
    state = await orchestrator.state()
    assert state is not None and state.over
    await orchestrator.close()


def test_a_server_that_may_evict_is_refused(server: RedisServer) -> None:
    client = Redis.from_url(server.url)
    check_eviction_policy(client)
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(EvictionPolicyError, match="noeviction"):
        check_eviction_policy(client)
