"""Each service as a process: who is let in, where it listens, what it counts and logs, and what it never tells."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import schemathesis
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from gagpo import redis_server
from services.orchestrator.http import ReplicaSet, ServerProblemError
from shared.service import Scope
from tests.processes import MAZE, REPOSITORY, ServiceProcess, start_service, without_settings

PASSWORD = "the-password-of-redis"
TOKENS = {scope: f"token-of-{scope}-0123456789" for scope in Scope}
EVERY = "token-of-all-0123456789"
NOBODY = "token-of-nobody-0123456789"
VARIABLES = {"GAGPO_TOKEN": EVERY, **{scope.variable: token for scope, token in TOKENS.items()}}
NOWHERE = "http://127.0.0.1:9"

PATHS = {
    "env": [
        ("GET", "/v1/environments", Scope.ENVIRONMENTS),
        ("GET", "/v1/environments/maze/tasks?split=train", Scope.ENVIRONMENTS),
        ("POST", "/v1/sessions", Scope.ENVIRONMENTS),
        ("POST", "/v1/steps", Scope.ENVIRONMENTS),
        ("POST", "/v1/sessions/s/step", Scope.ENVIRONMENTS),
        ("DELETE", "/v1/sessions/s", Scope.ENVIRONMENTS),
        ("GET", "/docs", Scope.ENVIRONMENTS),
    ],
    "orchestrator": [("GET", "/v1/status", Scope.JOBS)],
    "trainer": [
        ("GET", "/v1/jobs", Scope.JOBS),
        ("POST", "/v1/jobs", Scope.JOBS),
        ("GET", "/v1/jobs/j", Scope.JOBS),
        ("GET", "/v1/jobs/j/events", Scope.JOBS),
        ("GET", "/v1/jobs/j/logs", Scope.JOBS),
        ("POST", "/v1/jobs/j/cancel", Scope.JOBS),
        ("POST", "/v1/jobs/j/resume", Scope.JOBS),
        ("GET", "/v1/jobs/j/checkpoints", Scope.JOBS),
        ("GET", "/v1/jobs/j/checkpoints/1/archive", Scope.JOBS),
    ],
}


@dataclass(frozen=True, slots=True)
class Running:
    """All services that start quickly, with tokens, on a Redis with a password."""

    redis: redis_server.RedisServer
    services: dict[str, ServiceProcess]

    def url(self, name: str) -> str:
        return self.services[name].url

    def log(self, name: str) -> str:
        return self.services[name].log.read_text()

    def lines(self, name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log(name).splitlines()]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("security")
    with ExitStack() as stack:
        redis = stack.enter_context(redis_server.start_redis(folder / "redis"))
        with Redis.from_url(redis.url) as client:
            client.config_set("requirepass", PASSWORD)
        url = redis.url.replace("redis://", f"redis://:{PASSWORD}@")
        variables = {**VARIABLES, "REDIS_URL": url, "GAGPO_LOG_LEVEL": "debug"}
        env = stack.enter_context(start_service("services.env_server", {**MAZE, **variables}))
        at = ["--follow", "--env-url", env.url, "--policy-url", env.url]  # asked only whether it is ready
        orchestrator = stack.enter_context(start_service("services.orchestrator", variables, flags=at))
        servers = {"GAGPO_TRAINER_ENV_URL": env.url, "GAGPO_TRAINER_POLICY_URL": NOWHERE}
        runs = {"GAGPO_TRAINER_RUNS": str(folder / "runs")}
        trainer = stack.enter_context(start_service("services.trainer.server", {**variables, **servers, **runs}))
        yield Running(redis, {"env": env, "orchestrator": orchestrator, "trainer": trainer})


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("name", "method", "path", "scope"), [(name, *row) for name in PATHS for row in PATHS[name]])
def test_a_path_is_opened_by_its_scope_alone(running: Running, name: str, method: str, path: str, scope: Scope) -> None:
    with httpx.Client(base_url=running.url(name), timeout=30) as client:
        refused = [client.request(method, path), client.request(method, path, headers=bearer(NOBODY))]
        assert [answer.status_code for answer in refused] == [401, 401]
        for answer in refused:
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
        for other in Scope:
            if other is not scope:
                assert client.request(method, path, headers=bearer(TOKENS[other])).status_code == 403, other
        for token in (TOKENS[scope], EVERY):
            assert client.request(method, path, headers=bearer(token)).status_code not in (401, 403, 500)


@pytest.mark.parametrize("name", PATHS)
def test_the_document_names_the_scheme_and_the_scopes_and_tells_the_truth(running: Running, name: str) -> None:
    document = httpx.get(f"{running.url(name)}/openapi.json", headers=bearer(EVERY), timeout=30).json()
    assert [(one["type"], one["scheme"]) for one in document["components"]["securitySchemes"].values()] == [
        ("http", "bearer")
    ]
    (scope,) = {scope for _, _, scope in PATHS[name]}
    for path, item in document["paths"].items():
        for operation in item.values():
            guarded = path not in ("/healthz", "/readyz", "/metrics")
            assert operation.get("security") == ([{"token": [scope]}] if guarded else None), path
            assert ("401" in operation["responses"]) is guarded
    listed = next(path for method, path, _ in PATHS[name] if method == "GET")
    schema = schemathesis.openapi.from_url(f"{running.url(name)}/openapi.json", headers=bearer(EVERY))
    token = {"Authorization": f"Bearer {TOKENS[scope]}"}  # so spelt, it is tried without and with another, too
    schema[listed]["GET"].Case().call_and_validate(headers=token, timeout=30)


def test_the_socket_asks_for_the_token_as_well(running: Running) -> None:
    url = running.url("env").replace("http", "ws") + "/v1/ws"
    for headers, status in (({}, 401), (bearer(NOBODY), 401), (bearer(TOKENS[Scope.JOBS]), 403)):
        with pytest.raises(InvalidStatus) as caught, connect(url, additional_headers=headers):
            raise AssertionError("let in")
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body or b"{}")["status"] == status
    with connect(url, additional_headers=bearer(TOKENS[Scope.ENVIRONMENTS])) as socket:
        socket.send('{"id": 1, "op": "state", "session_id": "none"}')
        assert json.loads(socket.recv(timeout=20))["status"] == 404


@pytest.mark.parametrize("name", PATHS)
def test_operators_need_no_token(running: Running, name: str) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert httpx.get(running.url(name) + path, timeout=30).status_code == 200


@pytest.mark.parametrize("name", PATHS)
def test_the_metrics_parse_and_move(running: Running, name: str) -> None:
    def requests() -> float:
        text = httpx.get(running.url(name) + "/metrics", timeout=30).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert all(family.startswith(f"gagpo_{name}_") for family in families)
        counted = families[f"gagpo_{name}_http_requests"]
        return sum(sample.value for sample in counted.samples if sample.labels.get("status") == "401")

    before = requests()
    httpx.get(running.url(name) + PATHS[name][0][1], timeout=30)
    assert requests() == before + 1


def test_the_env_servers_steps_are_counted_by_environment(running: Running) -> None:
    headers = bearer(TOKENS[Scope.ENVIRONMENTS])
    with httpx.Client(base_url=running.url("env"), headers=headers, timeout=30) as client:
        opening = {"environment": "maze", "split": "train", "index": 0}
        session = client.post("/v1/sessions", json=opening).json()["sessions"][0]["session_id"]
        client.post(f"/v1/sessions/{session}/step", json={"action": "north", "step_index": 0}).raise_for_status()
        text = client.get("/metrics").text
    samples = {
        (sample.name, sample.labels.get("environment")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["gagpo_env_steps_total", "maze"] >= 1
    assert samples["gagpo_env_sessions_opened_total", "maze"] >= 1
    assert samples["gagpo_env_workers_ready", None] == 2


@pytest.mark.parametrize("name", PATHS)
def test_a_request_has_an_id_in_its_answer_and_in_the_log(running: Running, name: str) -> None:
    path = PATHS[name][0][1]
    given = httpx.get(running.url(name) + path, headers={"X-Request-Id": "mine-7"}, timeout=30)
    assert given.headers["x-request-id"] == given.json()["request_id"] == "mine-7"
    made = httpx.get(running.url(name) + path, headers={"X-Request-Id": "not one!"}, timeout=30)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", made.headers["x-request-id"])
    wait_for(lambda: made.headers["x-request-id"] in running.log(name))
    lines = running.lines(name)
    (access,) = [line for line in lines if line.get("request") == "mine-7" and line["level"] == "debug"]
    assert str(access["message"]).startswith(f"GET {path.partition('?')[0]} 401 ")
    assert all({"time", "level", "service", "logger", "message"} <= line.keys() for line in lines)


async def test_a_client_s_complaint_names_the_request_as_the_server_s_log_does(running: Running) -> None:
    async with ReplicaSet([running.url("trainer")], 10, 10) as replicas:
        with pytest.raises(ServerProblemError, match=r"unauthorized: .* \(request [0-9a-f]{8}-[0-9a-f]+\)") as caught:
            await replicas.request("GET", "/v1/jobs")
    identity = str(caught.value).rpartition("(request ")[2].rstrip(")")
    wait_for(lambda: f'"request":"{identity}"' in running.log("trainer"))


@pytest.mark.parametrize("name", PATHS)
def test_a_head_without_end_is_cut_off(running: Running, name: str) -> None:
    host, port = running.url(name).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        sent = 0
        with suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: ")
            for _ in range(1000):
                sent += connection.send(b"x" * 65536)
        assert sent < 32 << 20
        with suppress(ConnectionError):
            assert b" 431 " in connection.recv(1000)
    assert httpx.get(running.url(name) + "/healthz", headers={"x-long": "x" * 30_000}, timeout=30).status_code == 200


def test_a_large_submission_is_refused(running: Running) -> None:
    headers = bearer(TOKENS[Scope.JOBS])
    answer = httpx.post(running.url("trainer") + "/v1/jobs", headers=headers, content=b" " * (5 << 20), timeout=30)
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")


def test_no_secret_is_told_even_when_redis_goes_away(running: Running) -> None:
    """The last test of the module: it takes Redis down."""
    running.redis.stop()
    said = []
    for name, rows in PATHS.items():
        method, path, scope = rows[0]
        with suppress(httpx.TimeoutException):
            said.append(httpx.get(running.url(name) + "/readyz", timeout=3).text)
            said.append(httpx.request(method, running.url(name) + path, headers=bearer(TOKENS[scope]), timeout=3).text)
    for service in running.services.values():
        service.stop()
    said += [running.log(name) for name in running.services]
    for secret in (PASSWORD, EVERY, NOBODY, *TOKENS.values()):
        assert secret not in "\n".join(said)


def wait_for(holds: Callable[[], bool], deadline_s: float = 20.0) -> None:
    deadline = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def answers_beyond_127_0_0_1(service: ServiceProcess) -> bool:
    """127.0.0.2 reaches a service that listens on every address, and none that listens on 127.0.0.1."""
    try:
        return httpx.get(service.url.replace("127.0.0.1", "127.0.0.2") + "/healthz", timeout=10).status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.parametrize(("token", "reachable"), [("", False), (TOKENS[Scope.JOBS], False), (EVERY, True)])
def test_other_machines_are_served_only_with_a_token_for_the_service(token: str, reachable: bool) -> None:
    name = "GAGPO_TOKEN_JOBS" if token == TOKENS[Scope.JOBS] else "GAGPO_TOKEN"
    with start_service("services.env_server", {**MAZE, name: token}, flags=["--host", "0.0.0.0"]) as service:
        assert answers_beyond_127_0_0_1(service) is reachable
        status = httpx.get(service.url + "/v1/environments", timeout=30).status_code
        assert status == (401 if reachable else 200)
        log = service.log.read_text()
        assert ("listens on 127.0.0.1 only, not on 0.0.0.0: set GAGPO_TOKEN or" in log) is not reachable


@pytest.mark.parametrize(
    "command",
    [
        ["services.env_server"],
        ["services.orchestrator", "--follow", "--env-url", NOWHERE, "--policy-url", NOWHERE],
        ["services.trainer.server"],
        ["services.policy_server", "--model", "none"],
    ],
)
def test_a_short_token_is_refused_at_the_start(command: list[str], tmp_path: Path) -> None:
    variables = {**without_settings(), "GAGPO_TOKEN_WEIGHTS": "short-secret", "REDIS_URL": "redis://127.0.0.1:9"}
    ran = subprocess.run(
        [sys.executable, "-m", *command, "--port", "0"],
        cwd=REPOSITORY,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 2
    assert "GAGPO_TOKEN_WEIGHTS has 12 characters; a token needs at least 16" in ran.stderr
    assert "short-secret" not in ran.stderr + ran.stdout
