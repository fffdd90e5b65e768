"""The WebSocket: requests at the same time, bad frames, and clients that leave."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.processes import ServiceProcess, start_env_server


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    with start_env_server() as service:
        yield service


@pytest.fixture
def socket(server: ServiceProcess) -> Iterator[ClientConnection]:
    with connect(server.url.replace("http", "ws") + "/v1/ws") as connection:
        yield connection


def ask(socket: ClientConnection, **frame: Any) -> Any:
    socket.send(json.dumps(frame))
    return json.loads(socket.recv(timeout=20))


def opened(socket: ClientConnection, index: int, count: int = 1) -> list[str]:
    answer = ask(
        socket, id="o", op="open", body={"environment": "maze", "split": "train", "index": index, "count": count}
    )
    assert answer["status"] == 201
    return [session["session_id"] for session in answer["body"]["sessions"]]


def test_a_session_from_open_to_delete(socket: ClientConnection) -> None:
    (session_id,) = opened(socket, 0)
    moved = ask(socket, id=1, op="step", session_id=session_id, body={"action": "north", "step_index": 0})
    assert (moved["id"], moved["status"], moved["body"]["step_index"]) == (1, 200, 1)
    assert ask(socket, id=2, op="state", session_id=session_id)["body"]["history_length"] == 1
    assert ask(socket, id=3, op="delete", session_id=session_id) == {"id": 3, "status": 204, "body": None}
    assert ask(socket, id=4, op="state", session_id=session_id)["status"] == 404


def test_a_slow_request_does_not_hold_up_the_others(socket: ClientConnection) -> None:
    ids = [session_id for index in range(8) for session_id in opened(socket, index)]
    slow = {"action": "sleep 1.5", "step_index": 0}
    socket.send(json.dumps({"id": "slow", "op": "step", "session_id": ids[0], "body": slow}))
    for number, session_id in enumerate(ids[1:]):
        body = {"action": "north", "step_index": 0}
        socket.send(json.dumps({"id": number, "op": "step", "session_id": session_id, "body": body}))
    answers = [json.loads(socket.recv(timeout=20)) for _ in ids]
    assert {answer["status"] for answer in answers} == {200}
    order = [answer["id"] for answer in answers]
    assert sorted(map(str, order)) == [*map(str, range(7)), "slow"]
    assert order[0] != "slow", "sessions of the other worker are answered first"


@pytest.mark.parametrize(
    "frame",
    ["{", "[]", '{"op": "state"}', '{"id": 1, "op": "dance"}', '{"id": 1, "op": "step", "body": {}}', '{"id": 1.5}'],
)
def test_a_bad_frame_is_answered_with_a_problem_and_the_socket_goes_on(socket: ClientConnection, frame: str) -> None:
    socket.send(frame)
    answer = json.loads(socket.recv(timeout=20))
    assert (answer["status"], answer["body"]["type"]) == (422, "/problems/invalid-request")
    assert opened(socket, 0)


def test_a_client_that_leaves_in_the_middle_of_a_step_finds_the_session_consistent(server: ServiceProcess) -> None:
    with connect(server.url.replace("http", "ws") + "/v1/ws") as leaving:
        (session_id,) = opened(leaving, 0)
        slow = {"action": "sleep 0.5", "step_index": 0}
        leaving.send(json.dumps({"id": 1, "op": "step", "session_id": session_id, "body": slow}))
        time.sleep(0.1)
    again = httpx.post(f"{server.url}/v1/sessions/{session_id}/step", json=slow, timeout=20.0)
    assert again.status_code == 200
    assert again.json()["observation"].startswith("You slept.")
    assert httpx.get(f"{server.url}/v1/sessions/{session_id}").json()["history_length"] == 1
    assert "Traceback" not in server.log.read_text()
