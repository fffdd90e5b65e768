"""The orchestrator's end of the env server's API, against a real one."""

import asyncio
import re

import httpx
import pytest

from services.orchestrator.environments import EnvironmentPool, SetupError
from services.orchestrator.http import ReplicaSet, ServerProblemError
from shared.recipe import EnvironmentSettings
from tests.processes import start_env_server

MAZE = EnvironmentSettings(name="maze", max_steps=5)


async def test_steps_that_come_together_travel_together() -> None:
    with start_env_server() as server:
        async with ReplicaSet([server.url], 10, 10) as replicas:
            pool = EnvironmentPool(replicas)
            sessions = await pool.open(MAZE, split="train", index=3, task_id=None, count=64)
            for turn in range(3):
                results = await asyncio.gather(*(pool.step(session, "north", turn) for session in sessions))
                assert [result.session_id for result in results] == [session.session_id for session in sessions]
                assert {result.step_index for result in results} == {turn + 1}
            before = _requests(server.url, "/v1/steps")
            assert before <= 9

            async def step_later(ticks: int) -> None:
                for _ in range(ticks):
                    await asyncio.sleep(0)
                await pool.step(sessions[ticks], "north", 3)

            await asyncio.gather(*(step_later(ticks) for ticks in range(32)))
            assert _requests(server.url, "/v1/steps") - before < 16
            await asyncio.gather(*(pool.close(session) for session in sessions))
            with pytest.raises(ServerProblemError) as caught:
                await pool.step(sessions[0], "north", 4)
            assert caught.value.kind == "unknown-session"
            await pool.close(sessions[0])


def _requests(url: str, route: str) -> int:
    text = httpx.get(url + "/metrics").text
    return sum(
        int(float(line.split()[-1]))
        for line in text.splitlines()
        if re.match(r"gagpo_env_http_requests_total\{", line) and f'route="{route}"' in line
    )


async def test_one_bad_step_does_not_hurt_the_others_in_its_batch() -> None:
    with start_env_server() as server:
        async with ReplicaSet([server.url], 10, 10) as replicas:
            pool = EnvironmentPool(replicas)
            sessions = await pool.open(MAZE, split="train", index=3, task_id=None, count=3)
            outcomes = await asyncio.gather(
                pool.step(sessions[0], "north", 0),
                pool.step(sessions[1], "north", 7),
                pool.step(sessions[2], "dance", 0),
                return_exceptions=True,
            )
            assert isinstance(outcomes[1], ServerProblemError)
            assert outcomes[1].kind == "step-conflict"
            assert not isinstance(outcomes[0], BaseException)
            assert not isinstance(outcomes[2], BaseException)
            assert outcomes[2].info["valid_action"] is False


async def test_a_cancelled_step_leaves_the_rest_of_its_batch_alone() -> None:
    with start_env_server() as server:
        async with ReplicaSet([server.url], 10, 10) as replicas:
            pool = EnvironmentPool(replicas)
            sessions = await pool.open(MAZE, split="train", index=3, task_id=None, count=2)
            cancelled = asyncio.create_task(pool.step(sessions[0], "north", 0))
            kept = asyncio.create_task(pool.step(sessions[1], "north", 0))
            await asyncio.sleep(0)
            cancelled.cancel()
            assert (await kept).step_index == 1


async def test_env_servers_with_different_data_are_refused() -> None:
    with start_env_server() as one, start_env_server(MAZE_DIGEST="1" * 64) as other:
        async with ReplicaSet([one.url, other.url], 10, 10) as replicas:
            with pytest.raises(SetupError, match="data_digest"):
                await EnvironmentPool(replicas).describe()
