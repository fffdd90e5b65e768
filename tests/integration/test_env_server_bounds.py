"""The env server bounds what a client or an environment can do to it; others never notice."""

import concurrent.futures
import http.client
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from shared.schemas.environment import MAX_ACTION_CHARS
from tests.processes import ServiceProcess, start_env_server, start_redis

OPENING = {"environment": "maze", "split": "train", "index": 2}


def open_sessions(url: str, count: int, **fields: Any) -> list[str]:
    response = httpx.post(f"{url}/v1/sessions", json={**OPENING, "count": count, **fields})
    response.raise_for_status()
    return [session["session_id"] for session in response.json()["sessions"]]


def step(url: str, session_id: str, index: int, action: str) -> httpx.Response:
    return httpx.post(
        f"{url}/v1/sessions/{session_id}/step", json={"action": action, "step_index": index}, timeout=30.0
    )


def problem(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("/problems/")


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    with start_env_server(GAGPO_ENV_STEP_DEADLINE_S="1", GAGPO_ENV_WORKERS="1") as service:
        yield service


def test_a_step_that_hangs_is_broken_off_and_the_others_go_on(server: ServiceProcess) -> None:
    ids = open_sessions(server.url, 5)
    for session_id in ids:
        assert step(server.url, session_id, 0, "north").status_code == 200
    moves = ["north", "south", "sleep 600", "north", "take coin"]
    batch = [
        {"session_id": session_id, "action": action, "step_index": 1}
        for session_id, action in zip(ids, moves, strict=True)
    ]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        started = time.monotonic()
        hanging = pool.submit(httpx.post, f"{server.url}/v1/steps", json={"steps": batch}, timeout=30.0)
        (bystander,) = open_sessions(server.url, 1)
        assert step(server.url, bystander, 0, "north").status_code == 200
        results = hanging.result().json()["results"]
    assert time.monotonic() - started < 10
    assert results[2]["type"] == "/problems/deadline-exceeded"
    assert [results[i]["observation"][:10] for i in (0, 1, 3)] == ["You walk n", "You walk s", "You walk n"]
    assert step(server.url, ids[2], 1, "north").json()["step_index"] == 2, "the session was rebuilt as it was before"
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'gagpo_env_workers_lost_total{reason="deadline"}' in metrics


def test_a_step_that_takes_its_process_down_harms_no_other(server: ServiceProcess) -> None:
    ids = open_sessions(server.url, 3)
    batch = [
        {"session_id": ids[0], "action": "north", "step_index": 0},
        {"session_id": ids[1], "action": "crash", "step_index": 0},
        {"session_id": ids[2], "action": "south", "step_index": 0},
    ]
    results = httpx.post(f"{server.url}/v1/steps", json={"steps": batch}, timeout=30.0).json()["results"]
    assert results[1]["type"] == "/problems/worker-crashed"
    assert results[0]["observation"].startswith("You walk north.")
    assert results[2]["observation"].startswith("You walk south.")
    assert step(server.url, ids[1], 0, "north").status_code == 200


def test_an_error_of_the_environment_is_a_problem_and_the_session_stays(server: ServiceProcess) -> None:
    (session_id,) = open_sessions(server.url, 1)
    assert step(server.url, session_id, 0, "north").status_code == 200
    assert problem(step(server.url, session_id, 1, "raise")) == (500, "environment-error")
    assert step(server.url, session_id, 1, "north").json()["observation"].startswith("You walk north. Room 2")


def test_a_full_server_answers_503_with_retry_after_and_has_room_after_a_delete() -> None:
    with start_env_server(GAGPO_ENV_MAX_SESSIONS="4", GAGPO_ENV_RETRY_AFTER_S="7") as server:
        ids = open_sessions(server.url, 3)
        full = httpx.post(f"{server.url}/v1/sessions", json={**OPENING, "count": 2})
        assert problem(full) == (503, "at-capacity")
        assert full.headers["retry-after"] == "7"
        httpx.delete(f"{server.url}/v1/sessions/{ids[0]}").raise_for_status()
        assert len(open_sessions(server.url, 2)) == 2
        assert step(server.url, ids[1], 0, "north").status_code == 200


@pytest.mark.parametrize("with_redis", [False, True])
def test_an_idle_session_expires_and_a_busy_one_does_not(with_redis: bool) -> None:
    with start_redis() as redis:
        variables = {"GAGPO_ENV_SESSION_TTL_S": "1.2", "GAGPO_ENV_REAP_EVERY_S": "0.1"}
        if with_redis:
            variables["REDIS_URL"] = redis
        with start_env_server(**variables) as server:
            idle, busy = open_sessions(server.url, 2, max_steps=1000)
            for index in range(10):
                assert step(server.url, busy, index, "north").status_code == 200
                time.sleep(0.2)
            assert problem(step(server.url, idle, 0, "north")) == (404, "unknown-session")
            assert "gagpo_env_sessions 1.0" in httpx.get(f"{server.url}/metrics").text


def test_a_body_of_10_mb_is_refused_before_it_is_read(server: ServiceProcess) -> None:
    address = urlsplit(server.url).netloc
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.putrequest("POST", "/v1/steps")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "10000000")
    connection.endheaders()
    connection.send(b"{")  # the rest is never sent: only a server that does not wait for it can answer
    answer = connection.getresponse()
    assert answer.status == 413
    assert b"/problems/body-too-large" in answer.read()
    connection.close()


def test_a_chunked_body_of_10_mb_is_refused_too(server: ServiceProcess) -> None:
    chunks = (b"a" * 100_000 for _ in range(100))
    refused = httpx.post(f"{server.url}/v1/steps", content=chunks, headers={"content-type": "application/json"})
    assert problem(refused) == (413, "body-too-large")


def test_a_10_mb_action_is_refused_and_the_session_unchanged(server: ServiceProcess) -> None:
    (session_id,) = open_sessions(server.url, 1)
    assert problem(step(server.url, session_id, 0, "a" * 10_000_000)) == (413, "body-too-large")
    assert problem(step(server.url, session_id, 0, "a" * (MAX_ACTION_CHARS + 1))) == (422, "invalid-request")
    assert step(server.url, session_id, 0, "a" * MAX_ACTION_CHARS).json()["info"]["valid_action"] is False


BAD_STEPS: list[Any] = [
    {"action": "", "step_index": 0},
    {"action": "   ", "step_index": 0},
    {"action": "\u2003", "step_index": 0},
    {"action": "north\n", "step_index": 0},
    {"action": "north\x00", "step_index": 0},
    {"action": "nor\x1bth", "step_index": 0},
    {"action": "north\x85", "step_index": 0},
    {"action": 5, "step_index": 0},
    {"action": None, "step_index": 0},
    {"action": "north", "step_index": "0"},
    {"action": "north", "step_index": -1},
    {"action": "north", "step_index": 0.5},
    {"action": "north", "step_index": True},
    {"action": "north"},
    {"step_index": 0},
    {"action": "north", "step_index": 0, "extra": 1},
    [],
    "north",
    None,
]


@pytest.mark.parametrize("bad", BAD_STEPS, ids=repr)
def test_a_bad_step_is_a_422_problem_and_the_session_unchanged(server: ServiceProcess, bad: Any) -> None:
    (session_id,) = open_sessions(server.url, 1)
    assert problem(httpx.post(f"{server.url}/v1/sessions/{session_id}/step", json=bad)) == (422, "invalid-request")
    batch = {"steps": [{"session_id": session_id, **bad} if isinstance(bad, dict) else bad]}
    assert problem(httpx.post(f"{server.url}/v1/steps", json=batch)) == (422, "invalid-request")
    state = httpx.get(f"{server.url}/v1/sessions/{session_id}").json()
    assert (state["history_length"], state["observation"]) == (0, "You wake up in a maze. Room 0 of 5.")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"action": "\xff", "step_index": 0}', b"[" * 100_000])
def test_what_is_not_json_or_not_msgpack_is_a_422_problem(server: ServiceProcess, body: bytes) -> None:
    for kind in ("json", "msgpack"):
        headers = {"content-type": f"application/{kind}"}
        for path in ("/v1/sessions", "/v1/steps"):
            refused = httpx.post(server.url + path, content=body, headers=headers)
            assert problem(refused) == (422, "invalid-request")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"environment": "nowhere"}, (404, "unknown-environment")),
        ({"split": "nowhere"}, (404, "unknown-split")),
        ({"index": 20}, (404, "unknown-task")),
        ({"index": 10**30}, (404, "unknown-task")),
        ({"split": None, "index": None, "task_id": "maze-1"}, (404, "unknown-task")),
        ({"task_id": "maze-3"}, (422, "invalid-request")),
        ({"seed": 1}, (422, "invalid-request")),
        ({"split": None}, (422, "invalid-request")),
        ({"options": {"start": 99}}, (422, "invalid-option")),
        ({"options": {"color": "red"}}, (422, "invalid-option")),
        ({"options": []}, (422, "invalid-request")),
        ({"count": 0}, (422, "invalid-request")),
        ({"count": 1025}, (422, "invalid-request")),
        ({"max_steps": 0}, (422, "invalid-request")),
        ({"state_key": "colour"}, (422, "invalid-request")),
        ({"colour": 1}, (422, "invalid-request")),
    ],
)
def test_a_bad_opening_is_a_4xx_problem(
    server: ServiceProcess, fields: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert problem(httpx.post(f"{server.url}/v1/sessions", json={**OPENING, **fields})) == expected


def test_a_batch_answers_each_bad_session_by_itself(server: ServiceProcess) -> None:
    (session_id,) = open_sessions(server.url, 1)
    ids = [session_id, "A" * 22, "../../etc", ""]
    batch = {"steps": [{"session_id": each, "action": "north", "step_index": 0} for each in ids]}
    results = httpx.post(f"{server.url}/v1/steps", json=batch).json()["results"]
    assert results[0]["step_index"] == 1
    assert [result["type"] for result in results[1:]] == ["/problems/unknown-session"] * 3


def test_an_unknown_media_type_path_and_method_are_problems(server: ServiceProcess) -> None:
    headers = {"content-type": "text/plain"}
    assert problem(httpx.post(f"{server.url}/v1/steps", content=b"{}", headers=headers))[0] == 415
    assert problem(httpx.get(f"{server.url}/v1/nowhere")) == (404, "not-found")
    assert problem(httpx.put(f"{server.url}/v1/steps")) == (405, "method-not-allowed")


def test_too_much_waiting_work_is_503(server: ServiceProcess) -> None:
    with start_env_server(GAGPO_ENV_MAX_PENDING_ITEMS="3") as small:
        ids = open_sessions(small.url, 4)
        batch = {"steps": [{"session_id": each, "action": "north", "step_index": 0} for each in ids]}
        assert problem(httpx.post(f"{small.url}/v1/steps", json=batch)) == (503, "overloaded")
        assert httpx.get(f"{small.url}/v1/sessions/{ids[0]}").json()["history_length"] == 0
