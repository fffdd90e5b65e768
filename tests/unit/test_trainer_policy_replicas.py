"""Pushing weights to several policy servers: all of them, those that come late, and not those that are gone."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest

from gagpo.ports import free_port
from services.trainer import policy_replicas
from services.trainer.policy_replicas import PolicyReplicas, WeightPushError
from shared.schemas.policy import WeightFile, WeightPush


class Stub:
    """A policy server that keeps to the rules of ``/v1/weights``, as far as they matter to whoever pushes."""

    def __init__(self) -> None:
        self.version, self.digest = 0, "initial"
        self.status = 200
        self.pushes: list[WeightPush] = []

    def answer(self, method: str, body: bytes) -> tuple[int, dict[str, object]]:
        """Status and message."""
        if method == "POST":
            push = WeightPush.model_validate_json(body)
            self.pushes.append(push)
            if self.status != 200:
                return self.status, {"detail": "for the test"}
            if push.expected_version not in (None, self.version):
                return 409, {"detail": "another version"}
            self.version, self.digest = push.version, push.digest
        held = {"version": self.version, "digest": self.digest, "initial_digest": "initial"}
        return 200, {**held, "model": "stub", "history": []}


@contextmanager
def _serve(stub: Stub, ip: str, port: int) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(b"")

        def do_POST(self) -> None:
            self._say(self.rfile.read(int(self.headers["content-length"])))

        def _say(self, body: bytes) -> None:
            status, message = stub.answer(self.command, body)
            content = json.dumps(message).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((ip, port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class Farm:
    """Policy servers at 127.0.0.1, 127.0.0.2 …, all behind one name."""

    def __init__(self, stack: ExitStack) -> None:
        self.port = free_port()
        self.named: list[str] = []
        self.stack = stack
        self._places = count(1)

    def add(self, named: bool = True, alive: bool = True) -> Stub:
        """One more server; its address is looked up where it is ``named``."""
        stub, ip = Stub(), f"127.0.0.{next(self._places)}"
        if alive:
            self.stack.enter_context(_serve(stub, ip, self.port))
        if named:
            self.named.append(ip)
        return stub

    def replicas(self, push_timeout_s: float = 5.0, left_behind_after_s: float = 0.5) -> PolicyReplicas:
        """The trainer's end."""
        made = PolicyReplicas(
            [f"http://policy:{self.port}"],
            push_timeout_s,
            lookup=lambda host: list(self.named),
            left_behind_after_s=left_behind_after_s,
        )
        self.stack.callback(made.close)
        return made


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Farm]:
    """An empty one, in which lagging servers are looked for ten times a second."""
    monkeypatch.setattr(policy_replicas, "LOOK_EVERY_S", 0.1)
    with ExitStack() as stack:
        yield Farm(stack)


def _push(version: int) -> WeightPush:
    return WeightPush(version=version, digest=f"digest-{version}", source=WeightFile(path="/weights"))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def test_a_push_reaches_every_replica(farm: Farm) -> None:
    stubs = [farm.add() for _ in range(3)]
    farm.replicas().push(_push(1))
    assert [(stub.version, stub.digest) for stub in stubs] == [(1, "digest-1")] * 3


def test_one_that_comes_later_or_starts_again_is_given_the_latest(farm: Farm) -> None:
    first = farm.add()
    late = farm.add(named=False)
    replicas = farm.replicas()
    replicas.push(_push(5))
    farm.named.append("127.0.0.2")
    _wait(lambda: late.version == 5)
    assert late.pushes[0].expected_version == 0, "a newer push that comes in between must not be undone"
    first.version, first.digest = 0, "initial"
    _wait(lambda: first.version == 5)
    replicas.push(_push(6))
    assert (first.version, late.version) == (6, 6)


def test_the_dead_are_left_behind_as_long_as_somebody_took_it(farm: Farm) -> None:
    alive, _ = farm.add(), farm.add(alive=False)
    replicas = farm.replicas(left_behind_after_s=2.0)
    began = time.monotonic()
    replicas.push(_push(1))
    assert alive.version == 1
    assert time.monotonic() - began >= 2.0, "it might only have been starting again"
    began = time.monotonic()
    replicas.push(_push(2))
    assert time.monotonic() - began < 1.5, "nobody waits for it twice"


def test_one_that_no_name_leads_to_is_given_up_at_once(farm: Farm) -> None:
    alive, _ = farm.add(), farm.add(alive=False)
    replicas = farm.replicas()
    later = threading.Timer(0.1, farm.named.pop)
    later.start()
    replicas.push(_push(1))
    later.join()
    assert alive.version == 1


def test_one_that_is_not_ready_gets_it_once_it_is(farm: Farm) -> None:
    ready, starting = farm.add(), farm.add()
    starting.status = 503
    farm.replicas().push(_push(3))
    assert (ready.version, starting.version) == (3, 0)
    starting.status = 200
    _wait(lambda: starting.version == 3)


def test_the_only_one_may_come_back_under_another_address(farm: Farm) -> None:
    farm.add(alive=False)
    other = farm.add(named=False)

    def move() -> None:
        farm.named[:] = ["127.0.0.2"]

    later = threading.Timer(0.2, move)
    later.start()
    farm.replicas().push(_push(1))
    later.join()
    assert other.version == 1


def test_with_nobody_there_a_push_fails_after_its_deadline(farm: Farm) -> None:
    farm.add(alive=False)
    with pytest.raises(WeightPushError, match=r"127\.0\.0\.1:\d+ did not take version 1"):
        farm.replicas(push_timeout_s=0.3).push(_push(1))


def test_a_refusal_by_any_is_told(farm: Farm) -> None:
    farm.add()
    refusing = farm.add()
    refusing.status = 422
    with pytest.raises(WeightPushError, match="status 422"):
        farm.replicas().push(_push(1))
    assert len(refusing.pushes) == 3
