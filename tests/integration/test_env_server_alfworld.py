"""Real ALFWorld games over HTTP: won by the expert, in groups, and the same after the loss of every worker."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.data_paths import real_data
from tests.processes import ServiceProcess, start_env_server, start_redis


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    data = real_data("alfworld")
    with (
        start_redis() as redis,
        start_env_server(
            GAGPO_ENV_ENVIRONMENTS="{}",
            GAGPO_ENV_SERVE='["alfworld"]',
            ALFWORLD_DATA=str(data),
            REDIS_URL=redis,
        ) as service,
    ):
        yield service


def open_group(server: ServiceProcess, **fields: Any) -> list[dict[str, Any]]:
    body = {"environment": "alfworld", "split": "valid_unseen", "index": 0, **fields}
    response = httpx.post(f"{server.url}/v1/sessions", json=body, timeout=30.0)
    assert response.status_code == 201, response.text
    sessions: list[dict[str, Any]] = response.json()["sessions"]
    return sessions


def step_all(server: ServiceProcess, sessions: list[dict[str, Any]], actions: list[str]) -> list[dict[str, Any]]:
    steps = [
        {"session_id": session["session_id"], "action": action, "step_index": session["step_index"]}
        for session, action in zip(sessions, actions, strict=True)
    ]
    response = httpx.post(f"{server.url}/v1/steps", json={"steps": steps}, timeout=60.0)
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    assert all("reward" in result for result in results), results
    return results


def test_the_environment_lists_its_splits_and_tasks(server: ServiceProcess) -> None:
    (description,) = httpx.get(f"{server.url}/v1/environments").json()["environments"]
    assert description["splits"] == {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
    page = httpx.get(f"{server.url}/v1/environments/alfworld/tasks?split=valid_unseen&limit=1000").json()
    assert len(page["tasks"]) == page["total"] == 134


def test_the_expert_wins_every_kind_of_task_over_http(server: ServiceProcess) -> None:
    sessions = [open_group(server, index=index, options={"expert": True})[0] for index in range(0, 134, 4)]
    assert len({session["info"]["task_type"] for session in sessions}) == 6
    optimal = {session["session_id"]: session["info"]["optimal_steps"] for session in sessions}
    while sessions:
        results = step_all(server, sessions, [session["info"]["expert_action"] for session in sessions])
        for result in results:
            won = result["step_index"] == optimal[result["session_id"]]
            assert (result["info"]["won"], result["terminated"], result["reward"] > 0) == (won, won, won)
        sessions = [result for result in results if not result["terminated"]]


def test_groups_that_lose_their_workers_go_on_as_those_that_do_not(server: ServiceProcess) -> None:
    kinds = ("observation", "observation+inventory", "simulator", "history")

    def opened() -> list[dict[str, Any]]:
        """A group of each kind of state key."""
        opening = {"index": 7, "count": 4, "true_state": True, "options": {"expert": True}}
        return [session for kind in kinds for session in open_group(server, **opening, state_key=kind)]

    disturbed, undisturbed = opened(), opened()
    for turn in range(6):
        actions = [
            s["admissible_actions"][(turn * 7 + number * 3) % len(s["admissible_actions"])]
            for number, s in enumerate(undisturbed)
        ]
        undisturbed = step_all(server, undisturbed, actions)
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.pid)], capture_output=True, text=True)
        for pid in listed.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        disturbed = step_all(server, disturbed, actions)
        for number, (one, other) in enumerate(zip(disturbed, undisturbed, strict=True)):
            assert {**one, "session_id": ""} == {**other, "session_id": ""}
            assert (one["true_state"] == one["state_key"]) is (kinds[number // 4] == "simulator")


def test_an_action_that_means_nothing_is_a_step(server: ServiceProcess) -> None:
    (session,) = open_group(server)
    (result,) = step_all(server, [session], ["dance with the fridge"])
    assert result["observation"] == "Nothing happens."
    assert result["info"]["valid_action"] is False
    assert result["step_index"] == 1


def test_an_unknown_task_and_a_bad_option_are_problems(server: ServiceProcess) -> None:
    body = {"environment": "alfworld", "task_id": "no/such"}
    assert httpx.post(f"{server.url}/v1/sessions", json=body).status_code == 404
    body = {"environment": "alfworld", "split": "train", "index": 0, "options": {"goal_style": "sung"}}  # type: ignore[dict-item]
    refused = httpx.post(f"{server.url}/v1/sessions", json=body)
    assert (refused.status_code, refused.json()["option"]) == (422, "goal_style")
