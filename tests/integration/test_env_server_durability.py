"""Sessions outlive workers and servers, and two replicas never disagree about one."""

import asyncio
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from gagpo.redis_server import start_redis as start_redis_in
from tests.processes import ServiceProcess, start_env_server, start_redis

OPENING = {"environment": "maze", "split": "train", "index": 2, "count": 4}


def open_group(url: str, **fields: Any) -> list[str]:
    response = httpx.post(f"{url}/v1/sessions", json={**OPENING, **fields})
    response.raise_for_status()
    return [session["session_id"] for session in response.json()["sessions"]]


def step(url: str, session_id: str, index: int, action: str) -> httpx.Response:
    return httpx.post(
        f"{url}/v1/sessions/{session_id}/step", json={"action": action, "step_index": index}, timeout=30.0
    )


def workers_of(service: ServiceProcess) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(service.pid)], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]


def wait_until_in_hand(service: ServiceProcess, items: int) -> None:
    """Wait until the server works on so many steps."""
    deadline = time.monotonic() + 60
    while f"gagpo_env_pending_items {items}.0" not in httpx.get(f"{service.url}/metrics", timeout=20.0).text:
        assert time.monotonic() < deadline, f"{items} steps were never in hand at once"
        time.sleep(0.02)


def test_sessions_of_a_killed_server_go_on_at_another_one() -> None:
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as second:
        with start_env_server(REDIS_URL=redis) as first:
            ids = open_group(first.url)
            before = [step(first.url, session_id, 0, "north").json() for session_id in ids]
            first.kill()
        for session_id, answered in zip(ids, before, strict=True):
            assert step(second.url, session_id, 0, "north").json() == answered
            assert step(second.url, session_id, 0, "south").status_code == 409
            went_on = step(second.url, session_id, 1, "north")
            assert went_on.status_code == 200
            assert went_on.json()["observation"] == "You walk north. Room 2 of 5. A coin lies here."


def test_a_server_that_is_told_to_stop_answers_what_it_was_asked_and_another_goes_on() -> None:
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as second:
        with start_env_server(REDIS_URL=redis) as first, ThreadPoolExecutor() as pool:
            ids = open_group(first.url)
            asked = [pool.submit(step, first.url, session_id, 0, "sleep 1") for session_id in ids]
            wait_until_in_hand(first, len(ids))
            first.stop()
            answered = [one.result().json() for one in asked]
            assert [answer["observation"][:10] for answer in answered] == ["You slept."] * 4
        for session_id, answer in zip(ids, answered, strict=True):
            assert step(second.url, session_id, 0, "sleep 1").json() == answer
            assert step(second.url, session_id, 1, "north").json()["step_index"] == 2


def test_a_step_that_hangs_does_not_keep_a_server_from_stopping() -> None:
    with start_env_server(GAGPO_ENV_STEP_DEADLINE_S="600") as server, ThreadPoolExecutor() as pool:
        (session_id,) = open_group(server.url, count=1)
        hanging = pool.submit(step, server.url, session_id, 0, "sleep 600")
        time.sleep(0.3)
        asked = time.monotonic()
        server.stop()
        assert time.monotonic() - asked < 10
        assert (hanging.result().status_code, hanging.result().json()["type"]) == (503, "/problems/stopping")


def test_a_server_that_starts_again_has_its_sessions() -> None:
    with start_redis() as redis:
        with start_env_server(REDIS_URL=redis) as server:
            (session_id,) = open_group(server.url, count=1)
            for index in range(3):
                last = step(server.url, session_id, index, "north").json()
        with start_env_server(REDIS_URL=redis) as server:
            state = httpx.get(f"{server.url}/v1/sessions/{session_id}").json()
            assert (state["observation"], state["history_length"]) == (last["observation"], 3)
            assert step(server.url, session_id, 2, "north").json() == last


def test_killing_every_worker_changes_no_answer() -> None:
    with start_env_server() as server, start_env_server() as undisturbed:
        disturbed_ids, ids = open_group(server.url), open_group(undisturbed.url)
        for index, action in enumerate(["north", "north", "take coin", "south", "north", "north"]):
            for pid in workers_of(server):
                os.kill(pid, signal.SIGKILL)
            for disturbed_id, session_id in zip(disturbed_ids, ids, strict=True):
                disturbed = step(server.url, disturbed_id, index, action).json()
                expected = step(undisturbed.url, session_id, index, action).json()
                assert disturbed == {**expected, "session_id": disturbed_id}
        deadline = time.monotonic() + 60
        while len(workers_of(server)) != 2:
            assert time.monotonic() < deadline, "a killed worker is replaced"
            time.sleep(0.05)


def test_workers_leave_with_a_killed_server_even_from_a_step_that_hangs() -> None:
    with start_env_server(GAGPO_ENV_STEP_DEADLINE_S="600") as server, ThreadPoolExecutor() as pool:
        workers = workers_of(server)
        assert len(workers) == 2
        (session_id,) = open_group(server.url, count=1)
        hanging = pool.submit(step, server.url, session_id, 0, "sleep 600")
        time.sleep(0.3)
        server.kill()
        assert isinstance(hanging.exception(), httpx.TransportError)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its server"
        time.sleep(0.1)


def test_a_session_deleted_at_one_replica_is_gone_at_the_other_which_has_it_in_memory() -> None:
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as one, start_env_server(REDIS_URL=redis) as other:
        for max_steps in (1, 2):  # the episode is over, or not yet
            (session_id,) = open_group(one.url, count=1, max_steps=max_steps)
            assert step(one.url, session_id, 0, "north").status_code == 200
            assert httpx.delete(f"{other.url}/v1/sessions/{session_id}").status_code == 204
            assert step(one.url, session_id, 1, "north").status_code == 404
            (session_id,) = open_group(one.url, count=1, max_steps=max_steps)
            assert step(one.url, session_id, 0, "north").status_code == 200
            assert httpx.delete(f"{other.url}/v1/sessions/{session_id}").status_code == 204
            assert step(one.url, session_id, 0, "north").status_code == 404


async def test_of_two_replicas_that_take_the_same_step_one_wins() -> None:
    """Each round, both replicas get another action for the same step: one is taken, and both then agree on which."""
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as one, start_env_server(REDIS_URL=redis) as two:
        (session_id,) = open_group(one.url, count=1, max_steps=1000)
        path = f"/v1/sessions/{session_id}/step"
        async with httpx.AsyncClient(base_url=one.url) as first, httpx.AsyncClient(base_url=two.url) as second:
            for index in range(60):
                answers = await asyncio.gather(
                    first.post(path, json={"action": "north", "step_index": index}),
                    second.post(path, json={"action": "south", "step_index": index}),
                )
                assert sorted(answer.status_code for answer in answers) == [200, 409]
                winner = answers[0] if answers[0].status_code == 200 else answers[1]
                action = "north" if winner is answers[0] else "south"
                for client in (first, second):
                    again = await client.post(path, json={"action": action, "step_index": index})
                    assert again.json() == winner.json()


async def test_the_same_step_sent_many_times_at_once_is_taken_once() -> None:
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as one, start_env_server(REDIS_URL=redis) as two:
        (session_id,) = open_group(one.url, count=1, max_steps=1000)
        async with httpx.AsyncClient() as client:
            for index in range(20):
                answers = await asyncio.gather(
                    *(
                        client.post(
                            f"{server.url}/v1/sessions/{session_id}/step",
                            json={"action": "north", "step_index": index},
                        )
                        for server in (one, two, one, two)
                    )
                )
                assert {answer.status_code for answer in answers} == {200}
                assert len({answer.text for answer in answers}) == 1
            state = (await client.get(f"{two.url}/v1/sessions/{session_id}")).json()
        assert state["history_length"] == 20


def test_a_replica_with_other_data_refuses_to_replay() -> None:
    with start_redis() as redis, start_env_server(REDIS_URL=redis) as one:
        (session_id,) = open_group(one.url, count=1)
        with start_env_server(REDIS_URL=redis, MAZE_DIGEST="f" * 64) as other:
            refused = step(other.url, session_id, 0, "north")
            assert (refused.status_code, refused.json()["type"]) == (409, "/problems/data-changed")
        assert step(one.url, session_id, 0, "north").status_code == 200


def test_without_redis_steps_wait_and_nothing_is_taken_twice(tmp_path: Path) -> None:
    with start_redis_in(tmp_path) as redis, start_env_server(REDIS_URL=redis.url) as server:
        (session_id,) = open_group(server.url, count=1)
        assert step(server.url, session_id, 0, "north").status_code == 200
        redis.stop()
        away = step(server.url, session_id, 1, "north")
        assert (away.status_code, away.json()["type"]) == (503, "/problems/journal-unavailable")
        assert int(away.headers["retry-after"]) > 0
        assert httpx.get(f"{server.url}/readyz", timeout=30.0).status_code == 503
        with start_redis_in(tmp_path, port=int(redis.url.split(":")[2].split("/")[0])):
            back = step(server.url, session_id, 1, "north")
            assert back.status_code == 200
            assert back.json()["observation"].startswith("You walk north. Room 2 of 5.")


def test_a_server_without_redis_says_so_plainly() -> None:
    with start_env_server() as server:
        assert "REDIS_URL is not set: the sessions' journal is in memory" in server.log.read_text()


@pytest.mark.parametrize(
    "variables", [{"GAGPO_ENV_SERVE": '["nowhere"]'}, {"GAGPO_ENV_ENVIRONMENTS": '{"maze": "no.such:Thing"}'}]
)
def test_an_environment_that_does_not_load_stops_the_start_and_says_why(variables: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"nowhere|no\.such"), start_env_server(**variables):
        pass
