"""The stream of running episodes in a real Redis: bounded, and whole again after a break."""

import asyncio

from shared.buffer import JobKeys, TurnReader, TurnWriter, connect
from shared.buffer.live import MAX_RECORDS
from shared.schemas.turns import EpisodeBegan, TurnPlayed


async def test_a_reader_who_did_not_count_as_watching_is_told_everything_again(redis_url: str) -> None:
    job = "break"
    writer, reader = TurnWriter(redis_url, job), TurnReader(redis_url, job)
    assert await writer.watcher() is None
    assert await reader.read() == []
    watcher = await writer.watcher()
    assert watcher is not None
    await writer.add([_began(), _turn(0)])
    await writer.add([_began(), _turn(0), _turn(1)])
    assert [one.record for one in await reader.read()] == [_began(), _turn(0), _turn(1)]
    client = connect(redis_url)
    client.delete(JobKeys(job).watched)  # as if nobody had read for a while
    client.close()
    await writer.add([_began(), _turn(0), _turn(1)])
    await asyncio.sleep(5.1)  # until it says again that it watches
    assert [one.record for one in await reader.read()] == [_began(), _turn(0), _turn(1)]
    assert (reader.lapses, await writer.watcher()) == (1, watcher)
    await reader.close()
    await writer.close()


async def test_records_are_trimmed(redis_url: str) -> None:
    job = "long"
    writer, client = TurnWriter(redis_url, job), connect(redis_url)
    for start in range(0, 6_000, 500):
        await writer.add([_turn(turn) for turn in range(start, start + 500)])
    assert client.xlen(JobKeys(job).turns) <= MAX_RECORDS + 200
    client.close()
    await writer.close()


def _began() -> EpisodeBegan:
    return EpisodeBegan(
        episode="a",
        step=0,
        group=0,
        member=0,
        environment="maze",
        task_id="maze-3",
        task="",
        observation="",
        began_at=0.0,
    )


def _turn(turn: int) -> TurnPlayed:
    return TurnPlayed(
        episode="a", turn=turn, action="north", observation="", reward=0.0, valid_action=True, policy_version=0
    )
