"""The journal: the memory one and the Redis one keep the same promises."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis

from gagpo.redis_server import start_redis
from services.env_server.journal import Entry, Journal, JournalUnavailableError, MemoryJournal, RedisJournal
from services.env_server.worker_protocol import Birth

BIRTH = Birth("maze", "maze-5", {"start": 1}, 30, "observation", "digest")


def test_a_birth_written_before_true_states_could_be_asked_for_is_read_as_one_without() -> None:
    written = msgspec.msgpack.encode(("maze", "maze-5", {"start": 1}, 30, "observation", "digest"))
    assert msgspec.msgpack.decode(written, type=Birth) == BIRTH
    assert BIRTH.true_state is False


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, start_redis(Path(folder)) as server:
        yield server.url


@pytest.fixture(params=["memory", "redis"])
async def journal(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    redis = Redis.from_url(redis_url)
    await redis.flushdb()
    yield RedisJournal(redis, "test", ttl_s=60, deadline_s=5)
    await redis.aclose()


async def actions(journal: Journal, session_id: str) -> list[str] | None:
    (record,) = await journal.load([session_id])
    return None if record is None else record.actions


async def test_what_was_appended_is_loaded_with_the_birth(journal: Journal) -> None:
    await journal.create(["a", "b"], BIRTH)
    assert await journal.append([Entry("a", 0, "nörth"), Entry("b", 0, "south")]) == [True, True]
    assert await journal.append([Entry("a", 1, "take coin")]) == [True]
    loaded = await journal.load(["b", "a", "missing"])
    assert [None if r is None else (r.birth, r.actions) for r in loaded] == [
        (BIRTH, ["south"]),
        (BIRTH, ["nörth", "take coin"]),
        None,
    ]


async def test_an_append_at_another_index_is_refused_and_changes_nothing(journal: Journal) -> None:
    await journal.create(["a", "b"], BIRTH)
    assert await journal.append([Entry("a", 1, "x"), Entry("b", 0, "y"), Entry("missing", 0, "z")]) == [
        False,
        True,
        False,
    ]
    assert await journal.append([Entry("b", 0, "again")]) == [False]
    assert await actions(journal, "a") == []
    assert await actions(journal, "b") == ["y"]
    assert await actions(journal, "missing") is None


async def test_of_many_appends_of_one_step_exactly_one_is_taken(journal: Journal) -> None:
    await journal.create(["a"], BIRTH)
    answers = await asyncio.gather(*(journal.append([Entry("a", 0, str(i))]) for i in range(20)))
    assert sum(answer == [True] for answer in answers) == 1
    taken = next(i for i, answer in enumerate(answers) if answer == [True])
    assert await actions(journal, "a") == [str(taken)]


async def test_a_deleted_session_is_gone_and_takes_no_step(journal: Journal) -> None:
    await journal.create(["a"], BIRTH)
    assert await journal.delete(["a", "missing"]) == [True, False]
    assert await journal.append([Entry("a", 0, "x")]) == [False]
    assert await actions(journal, "a") is None


async def test_a_loaded_record_is_a_copy(journal: Journal) -> None:
    await journal.create(["a"], BIRTH)
    (record,) = await journal.load(["a"])
    assert record is not None
    await journal.append([Entry("a", 0, "x")])
    assert record.actions == []


async def test_redis_forgets_a_session_that_is_not_touched_and_keeps_one_that_is(redis_url: str) -> None:
    redis = Redis.from_url(redis_url)
    journal = RedisJournal(redis, "ttl", ttl_s=0.4, deadline_s=5)
    await journal.create(["stepped", "loaded", "idle"], BIRTH)
    for index in range(4):
        await asyncio.sleep(0.15)
        assert await journal.append([Entry("stepped", index, "x")]) == [True]
        assert await actions(journal, "loaded") == []
    assert await actions(journal, "idle") is None
    await redis.aclose()


async def test_a_redis_that_is_away_is_one_typed_error() -> None:
    redis = Redis.from_url("redis://127.0.0.1:1/0")
    journal = RedisJournal(redis, "away", ttl_s=1, deadline_s=1)
    with pytest.raises(JournalUnavailableError):
        await journal.create(["a"], BIRTH)
    with pytest.raises(JournalUnavailableError):
        await journal.append([Entry("a", 0, "x")])
    with pytest.raises(JournalUnavailableError):
        await journal.ping()
    await redis.aclose()


async def test_a_session_that_is_there_is_not_begun_again(journal: Journal) -> None:
    assert await journal.create(["a"], BIRTH) == [True]
    await journal.append([Entry("a", 0, "north")])
    assert await journal.create(["a", "b"], BIRTH) == [False, True]
    assert await actions(journal, "a") == ["north"]
