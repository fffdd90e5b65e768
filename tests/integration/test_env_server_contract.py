"""The session contract, against a simple model: whatever a client does, over whichever transport and replica.

Two real servers share one Redis. Hypothesis makes up what a client does; now and then a worker process is killed.
Every answer must be the one of `ModelSession`, which steps the maze in this process.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.sync.client import ClientConnection, connect

from shared.schemas.environment import StateKeyKind
from tests.environments.maze import Maze, MazeFamily
from tests.processes import ServiceProcess, start_env_server, start_redis

Answer = tuple[int, Any]


@dataclass
class ModelSession:
    """What a session must be."""

    session_id: str
    task_id: str
    max_steps: int
    kind: StateKeyKind
    true_state: bool
    maze: Maze
    actions: list[str] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    deleted: bool = False

    def step(self, index: int, action: str) -> Answer:
        """The answer that the server must give."""
        if self.deleted:
            return 404, "/problems/unknown-session"
        if index < len(self.actions) and self.actions[index] == action:
            return 200, self.results[index]
        if index != len(self.actions):
            return 409, "/problems/step-conflict"
        if self.results and (self.results[-1]["terminated"] or self.results[-1]["truncated"]):
            return 409, "/problems/episode-over"
        outcome = self.maze.step(action)
        self.actions.append(action)
        result = self._observation(outcome.observation.text, outcome.observation.admissible_actions)
        result["info"] = {**outcome.observation.info, "valid_action": outcome.valid_action}
        truncated = not outcome.terminated and len(self.actions) >= self.max_steps
        result |= {"reward": outcome.reward, "terminated": outcome.terminated, "truncated": truncated}
        self.results.append(result)
        return 200, result

    def _observation(self, text: str, actions: Any) -> dict[str, Any]:
        observation = {
            "session_id": self.session_id,
            "task_id": self.task_id,
            "observation": text,
            "admissible_actions": list(actions),
            "state_key": self.maze.state_key(self.kind),
            "step_index": len(self.actions),
        }
        if self.true_state:
            observation["true_state"] = self.maze.state_key(StateKeyKind.SIMULATOR)
        return observation


class Replica:
    """One server and the ways to talk to it."""

    def __init__(self, service: ServiceProcess, socket: ClientConnection) -> None:
        self.service = service
        self.http = httpx.Client(base_url=service.url, timeout=30.0)
        self._socket = socket

    def post(self, transport: str, path: str, op: str, session_id: str | None, body: dict[str, Any]) -> Answer:
        """Send one message over REST (JSON or msgpack) or the WebSocket (the same)."""
        if transport == "json":
            response = self.http.post(path, json=body)
            return response.status_code, response.json()
        if transport == "msgpack":
            headers = {"content-type": "application/msgpack", "accept": "application/msgpack"}
            response = self.http.post(path, content=msgspec.msgpack.encode(body), headers=headers)
            decode = msgspec.msgpack.decode if response.is_success else msgspec.json.decode
            return response.status_code, decode(response.content)
        frame = {"id": 7, "op": op, "body": body} | ({"session_id": session_id} if session_id else {})
        if transport == "socket-json":
            self._socket.send(msgspec.json.encode(frame).decode())
            answer = msgspec.json.decode(self._socket.recv(timeout=30))
        else:
            self._socket.send(msgspec.msgpack.encode(frame))
            answer = msgspec.msgpack.decode(self._socket.recv(timeout=30))  # type: ignore[arg-type]
        assert answer["id"] == 7
        return answer["status"], answer["body"]

    def kill_a_worker(self) -> None:
        """The process that holds some of the sessions dies."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.service.pid)], capture_output=True, text=True)
        for pid in listed.stdout.split()[:1]:
            with suppress(ProcessLookupError):  # killed a moment ago, and gone since it was listed
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(scope="module")
def replicas() -> Iterator[list[Replica]]:
    with ExitStack() as stack:
        redis = stack.enter_context(start_redis())
        made = []
        for _ in range(2):
            service = stack.enter_context(start_env_server(REDIS_URL=redis))
            socket = stack.enter_context(connect(service.url.replace("http", "ws") + "/v1/ws"))
            made.append(Replica(service, socket))
        yield made


actions = st.sampled_from(["north", "north", "north", "south", "take coin", "take coin", "dance"])
moves = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            ["next"] * 6 + ["retry", "conflict", "gap", "state", "delete", "kill", "batch", "batch"]
        ),
        "who": st.integers(0, 3),
        "action": actions,
        "back": st.integers(1, 4),
        "replica": st.integers(0, 1),
        "transport": st.sampled_from(["json", "msgpack", "socket-json", "socket-msgpack"]),
        "others": st.lists(st.tuples(st.integers(0, 3), actions, st.integers(-2, 1)), max_size=6),
    }
)
openings = st.fixed_dictionaries(
    {
        "split": st.just("train"),
        "index": st.integers(0, 3),
        "max_steps": st.integers(1, 8),
        "state_key": st.sampled_from([kind.value for kind in StateKeyKind]),
        "true_state": st.booleans(),
        "count": st.integers(1, 4),
    }
)


def expect(answer: Answer, expected: Answer) -> None:
    """The whole result must be equal; of a problem, status and type."""
    status, body = answer
    assert status == expected[0], body
    if status == 200:
        assert body == expected[1]
    else:
        assert (body["type"], body["status"]) == (expected[1], status)


def open_group(replica: Replica, transport: str, opening: dict[str, Any]) -> list[ModelSession]:
    status, body = replica.post(transport, "/v1/sessions", "open", None, {"environment": "maze", **opening})
    assert status == 201
    assert len(body["sessions"]) == opening["count"]
    models = []
    for session in body["sessions"]:
        maze = MazeFamily().open(f"maze-{3 + opening['index']}", {})
        first = maze.reset()
        model = ModelSession(
            session["session_id"],
            maze.task_id,
            opening["max_steps"],
            StateKeyKind(opening["state_key"]),
            opening["true_state"],
            maze,
        )
        expected = {**model._observation(first.text, first.admissible_actions), "info": dict(first.info)}
        assert session == expected
        models.append(model)
    assert len({model.session_id for model in models}) == len(models)
    return models


def check_state(replica: Replica, model: ModelSession) -> None:
    response = replica.http.get(f"/v1/sessions/{model.session_id}")
    if model.deleted:
        assert response.status_code == 404
        return
    state = response.json()
    assert state["history_length"] == state["step_index"] == len(model.actions)
    assert 0 < state["expires_in_s"] <= 3600
    if model.results:
        last = dict(model.results[-1])
        del last["reward"]
        assert {name: state[name] for name in last} == last
    assert ("true_state" in state) is model.true_state


def make_move(move: dict[str, Any], models: list[ModelSession], replica: Replica) -> None:
    model = models[move["who"] % len(models)]
    length = len(model.actions)
    path = f"/v1/sessions/{model.session_id}"
    match move["kind"]:
        case "state":
            check_state(replica, model)
            return
        case "delete":
            status = replica.http.delete(path).status_code
            assert status == (404 if model.deleted else 204)
            model.deleted = True
            return
        case "kill":
            replica.kill_a_worker()
            return
        case "batch":
            steps = []
            expected = []
            for who, action, offset in [(move["who"], move["action"], 0), *move["others"]]:
                other = models[who % len(models)]
                index = max(0, len(other.actions) + offset)
                expected.append(other.step(index, action))
                steps.append({"session_id": other.session_id, "action": action, "step_index": index})
            status, body = replica.post(move["transport"], "/v1/steps", "steps", None, {"steps": steps})
            assert status == 200, body
            for item, wanted in zip(body["results"], expected, strict=True):
                expect((item.get("status", 200), item), wanted)
            return
        case "next":
            index, action = length, move["action"]
        case "retry":
            index = max(0, length - move["back"])
            action = model.actions[index] if length else move["action"]
        case "conflict":
            index, action = max(0, length - move["back"]), "another action"
        case _:
            index, action = length + move["back"], move["action"]
    answer = replica.post(
        move["transport"], path + "/step", "step", model.session_id, {"action": action, "step_index": index}
    )
    expect(answer, model.step(index, action))


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(opening=openings, script=st.lists(moves, min_size=5, max_size=30))
def test_every_answer_is_the_models_over_all_transports_and_replicas(
    replicas: list[Replica], opening: dict[str, Any], script: list[dict[str, Any]]
) -> None:
    models = open_group(replicas[0], "json", opening)
    for move in script:
        make_move(move, models, replicas[move["replica"]])
    for model in models:
        for replica in replicas:
            check_state(replica, model)
        if not model.deleted:
            replicas[0].http.delete(f"/v1/sessions/{model.session_id}").raise_for_status()
