"""Opening under an idempotency key: a client that asks again, because an answer was lost, gets the same sessions."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import msgspec
import pytest
from websockets.sync.client import connect

from services.orchestrator.environments import EnvironmentPool
from services.orchestrator.http import ReplicaSet
from shared.recipe import EnvironmentSettings
from tests.processes import ServiceProcess, start_env_server, start_redis

GROUP = {"environment": "maze", "split": "train", "seed": 5, "count": 4}


@pytest.fixture(scope="module")
def replicas() -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    """Two servers with one journal."""
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        one, other = (running.enter_context(start_env_server(REDIS_URL=redis_url)) for _ in range(2))
        yield one, other


def _open(server: ServiceProcess, key: str | None, body: dict[str, Any] = GROUP, **headers: str) -> httpx.Response:
    headers |= {} if key is None else {"idempotency-key": key}
    return httpx.post(server.url + "/v1/sessions", json=body, headers=headers, timeout=30)


def _ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 201, answer.text
    return [session["session_id"] for session in answer.json()["sessions"]]


def _held(server: ServiceProcess) -> int:
    (line,) = [
        line for line in httpx.get(server.url + "/metrics").text.splitlines() if line.startswith("gagpo_env_sessions ")
    ]
    return int(float(line.split()[1]))


def test_the_same_request_under_the_same_key_opens_nothing_again(
    replicas: tuple[ServiceProcess, ServiceProcess],
) -> None:
    one, other = replicas
    before = _held(one)
    first = _open(one, "again")
    assert len(set(_ids(first))) == 4
    assert _open(one, "again").json() == first.json()
    assert _open(other, "again").json() == first.json(), "on another replica with the same journal too"
    assert _held(one) == before + 4
    packed = _open(one, "again", accept="application/msgpack")
    assert msgspec.msgpack.decode(packed.content) == first.json()
    assert not set(_ids(_open(one, None))) & set(_ids(first))
    assert not set(_ids(_open(one, "another"))) & set(_ids(first))


def test_another_request_under_the_same_key_is_another_opening(
    replicas: tuple[ServiceProcess, ServiceProcess],
) -> None:
    openings = [
        _ids(_open(replicas[0], "reused", body))
        for body in (GROUP, GROUP | {"count": 2}, GROUP | {"seed": 6}, GROUP | {"options": {"start": 1}})
    ]
    assert len({session_id for opening in openings for session_id in opening}) == 4 + 2 + 4 + 4


def test_requests_at_the_same_time_open_one_group(replicas: tuple[ServiceProcess, ServiceProcess]) -> None:
    before = _held(replicas[0]) + _held(replicas[1])
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda turn: _ids(_open(replicas[turn % 2], "at-once")), range(8)))
    assert all(answer == answers[0] for answer in answers)
    opened = _held(replicas[0]) + _held(replicas[1]) - before
    assert opened <= 8, "each replica holds the group at most once"


def test_a_repeat_after_a_step_tells_how_the_sessions_are_now(
    replicas: tuple[ServiceProcess, ServiceProcess],
) -> None:
    one, other = replicas
    ids = _ids(_open(one, "stepped"))
    step = {"action": "north", "step_index": 0}
    moved = httpx.post(f"{one.url}/v1/sessions/{ids[0]}/step", json=step).json()
    for server in (one, other):
        repeated = _open(server, "stepped").json()["sessions"]
        assert [session["step_index"] for session in repeated] == [1, 0, 0, 0]
        assert repeated[0] == {name: value for name, value in moved.items() if name in repeated[0]}
        assert "reward" not in repeated[0]


def test_what_was_deleted_is_not_brought_back_by_a_repeat_unless_all_of_it_was(
    replicas: tuple[ServiceProcess, ServiceProcess],
) -> None:
    one, _ = replicas
    ids = _ids(_open(one, "deleted"))
    httpx.delete(f"{one.url}/v1/sessions/{ids[2]}").raise_for_status()
    assert _open(one, "deleted").json()["type"] == "/problems/unknown-session"
    for session_id in ids:
        httpx.delete(f"{one.url}/v1/sessions/{session_id}")
    assert _ids(_open(one, "deleted")) == ids


@pytest.mark.parametrize("key", ["", "two words", "k" * 256])
def test_a_key_that_cannot_be_one_is_refused(replicas: tuple[ServiceProcess, ServiceProcess], key: str) -> None:
    answer = _open(replicas[0], key)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-request")
    assert "Idempotency-Key" in answer.json()["detail"]


def test_the_socket_takes_a_key_as_well(replicas: tuple[ServiceProcess, ServiceProcess]) -> None:
    ids = _ids(_open(replicas[0], "socket"))
    with connect(replicas[0].url.replace("http", "ws") + "/v1/ws") as socket:
        socket.send(json.dumps({"id": 1, "op": "open", "idempotency_key": "socket", "body": GROUP}))
        answer = json.loads(socket.recv(timeout=20))
        assert [session["session_id"] for session in answer["body"]["sessions"]] == ids
        socket.send(json.dumps({"id": 2, "op": "open", "idempotency_key": "no good", "body": GROUP}))
        assert json.loads(socket.recv(timeout=20))["status"] == 422


@contextmanager
def _losing_first_answer(url: str) -> Iterator[str]:
    """A proxy that passes requests on, and hangs up instead of giving the first answer."""
    lost = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = httpx.post(url + self.path, content=body, headers=dict(self.headers))
            if not lost.is_set():
                lost.set()
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
        assert lost.is_set()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


async def test_an_orchestrator_whose_answer_was_lost_leaves_no_group_behind(
    replicas: tuple[ServiceProcess, ServiceProcess],
) -> None:
    one, _ = replicas
    before = _held(one)
    with _losing_first_answer(one.url) as proxy:
        async with ReplicaSet([proxy], 10, 10) as servers:
            pool = EnvironmentPool(servers)
            sessions = await pool.open(EnvironmentSettings(name="maze"), split="train", index=3, task_id=None, count=4)
    assert len(sessions) == 4
    assert _held(one) == before + 4
