"""``GET /v1/jobs/{id}/turns``, the clients and ``gagpo job turns``; the tests play the orchestrator."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

import httpx
import pytest

from gagpo.client import AsyncClient, Client, Patience
from shared.buffer import JobKeys, TurnWriter, connect
from shared.schemas.job import JobState
from shared.schemas.turns import EpisodeBegan, EpisodeEnded, LiveRecord, TurnPlayed
from shared.trajectory import EpisodeEnd
from tests.cutting_proxy import cutting_proxy
from tests.job_service import JobSystem, TrainerUnderTest
from tests.processes import REPOSITORY

JOB = "thursday"
DEADLINE_S = 60.0
HASTY = Patience(wait_first_s=0.05, wait_most_s=0.1)


@pytest.fixture(scope="module")
def trainer(system: JobSystem) -> Iterator[TrainerUnderTest]:
    """With a job that waits for groups."""
    with system.trainer() as running:
        running.submit(system.recipe(steps=9), JOB).raise_for_status()
        running.wait_for(JOB, JobState.RUNNING)
        yield running


@pytest.fixture
async def writer(system: JobSystem) -> AsyncIterator[TurnWriter]:
    """The orchestrator's end, after nobody has watched for a while."""
    client = connect(system.redis_url)
    client.delete(JobKeys(JOB).watched, JobKeys(JOB).turns)
    client.close()
    made = TurnWriter(system.redis_url, JOB)
    yield made
    await made.close()


async def test_both_clients_are_told_the_same_over_connections_that_are_cut(
    trainer: TrainerUnderTest, writer: TurnWriter
) -> None:
    records = [*_episode("a", 0, turns=3), *_episode("b", 1, turns=2)]
    with cutting_proxy(trainer.process.url, [900]) as proxy:
        blocking = asyncio.create_task(asyncio.to_thread(_take, proxy.url, len(records)))
        async with AsyncClient(trainer.process.url) as client:
            stream = client.follow_turns(JOB)
            first = asyncio.create_task(anext(stream))
            await _until_watched(writer)
            await writer.add(records)
            told = [await first] + [await anext(stream) for _ in records[1:]]
        assert told == records
        assert await blocking == records
        assert proxy.cuts == [], "the cut has happened"


async def test_the_job_is_watched_while_the_stream_is_open(trainer: TrainerUnderTest, writer: TurnWriter) -> None:
    assert await writer.watcher() is None
    async with (
        httpx.AsyncClient(timeout=DEADLINE_S) as http,
        http.stream("GET", f"{trainer.jobs}/{JOB}/turns") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        await _until_watched(writer)
        [record] = _episode("c", 2, turns=0)[:1]
        await writer.add([record, record])  # told again, as when somebody else begins to watch
        lines = answer.aiter_lines()
        event = [line async for line in _up_to_blank(lines)]
        assert event[1] == "event: began"
        assert json.loads(event[2].removeprefix("data: ")) == json.loads(record.model_dump_json())
        async for line in lines:
            assert not line.startswith("data:"), "it is told once"
            if line.startswith(": alive"):
                break


async def test_a_reader_at_the_command_line_follows_one_episode_to_its_end(
    trainer: TrainerUnderTest, writer: TurnWriter
) -> None:
    first, second = _episode("d", 0, turns=2), _episode("e", 1, turns=1)
    with _turns(trainer) as process:
        await _until_watched(writer)
        await writer.add([*first[:2], *second[:2], first[2], first[3], second[2]])
        told = [await asyncio.to_thread(process.stdout.readline) for _ in range(12)]  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 30) == 130
        assert process.stderr is not None
        assert "The job goes on." in process.stderr.read()
    assert "".join(told) == (
        "── training step 4, group 0, episode 0 ── maze maze-3\n"
        "task: find the coin\n"
        "a room\n"
        "> north  [version 4]\n"
        "room 0\n"
        "> north  [version 4]\n"
        "room 1\n"
        "won after 2 turns, score 1\n"
        "\n"
        "── training step 4, group 0, episode 1 ── maze maze-3\n"
        "task: find the coin\n"
        "a room\n"
    )


async def test_all_episodes_have_a_line_for_each_turn(trainer: TrainerUnderTest, writer: TurnWriter) -> None:
    first, second = _episode("f", 0, turns=1), _episode("g", 1, turns=1)
    with _turns(trainer, "--all") as process:
        await _until_watched(writer)
        await writer.add([first[0], second[0], first[1], second[1], first[2]])
        told = [await asyncio.to_thread(process.stdout.readline) for _ in range(5)]  # type: ignore[union-attr]
    assert [line.split()[:4] for line in told] == [
        ["4/0/0", "begins", "maze", "maze-3:"],
        ["4/0/1", "begins", "maze", "maze-3:"],
        ["4/0/0", "1", ">", "north"],
        ["4/0/1", "1", ">", "north"],
        ["4/0/0", "won", "after", "1"],
    ]


async def test_nothing_is_played_for_a_job_that_is_over(trainer: TrainerUnderTest, system: JobSystem) -> None:
    async with httpx.AsyncClient(timeout=DEADLINE_S) as http:
        (await http.post(trainer.jobs, json={"recipe": system.recipe(), "id": "brief"})).raise_for_status()
        (await http.post(f"{trainer.jobs}/brief/cancel")).raise_for_status()
        assert (await http.get(f"{trainer.jobs}/brief/turns")).status_code == 204
        assert (await http.get(f"{trainer.jobs}/nobody/turns")).json()["type"] == "/problems/unknown-job"
    async with AsyncClient(trainer.process.url) as client:
        assert [record async for record in client.follow_turns("brief")] == []


def _episode(name: str, member: int, turns: int) -> list[LiveRecord]:
    """One that walks north and wins."""
    began = EpisodeBegan(
        episode=name,
        step=4,
        group=0,
        member=member,
        environment="maze",
        task_id="maze-3",
        task="find the coin",
        observation="a room",
        began_at=time.time(),
    )
    played = [
        TurnPlayed(
            episode=name,
            turn=turn,
            action="north",
            observation=f"room {turn}",
            reward=0.0,
            valid_action=True,
            policy_version=4,
        )
        for turn in range(turns)
    ]
    return [began, *played, EpisodeEnded(episode=name, turns=turns, end=EpisodeEnd.TERMINATED, won=True, score=1.0)]


def _take(url: str, count: int) -> Sequence[LiveRecord]:
    with Client(url, patience=HASTY) as client:
        stream = client.follow_turns(JOB)
        return [next(stream) for _ in range(count)]


@contextmanager
def _turns(trainer: TrainerUnderTest, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "gagpo", "job", "turns", JOB, "--server", trainer.process.url, *options]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def _until_watched(writer: TurnWriter) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while await writer.watcher() is None:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)


async def _up_to_blank(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if not line:
            return
        if not line.startswith(":"):
            yield line
