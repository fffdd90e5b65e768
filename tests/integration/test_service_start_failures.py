"""Services that can't start say why in words, and what to do: each is provoked for real."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from gagpo.stack import ProcessGroup, ServiceDiedError, ServiceSpec
from services.trainer.server.supervisor import ending_of
from tests.processes import REPOSITORY, free_port, start_redis

ANSWER_DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def evicting_redis() -> Iterator[str]:
    """A Redis that may throw keys away, as many a managed one is set up."""
    with start_redis() as url:
        redis.Redis.from_url(url).config_set("maxmemory-policy", "allkeys-lru")
        yield url


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def start(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a service that ends by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GAGPO_", "REDIS_", "ALFWORLD_"))}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=ANSWER_DEADLINE_S,
        check=False,
    )


SERVERS = ["--env-url", "http://127.0.0.1:1", "--policy-url", "http://127.0.0.1:1"]


def test_a_port_that_is_taken_is_named_with_who_to_ask_and_the_option(taken_port: int, tmp_path: Path) -> None:
    port, url = str(taken_port), "redis://127.0.0.1:1/0"
    for done in (
        start("services.env_server", "--port", port),
        start("services.orchestrator", "--follow", *SERVERS, "--redis-url", url, "--port", port),
    ):
        assert done.returncode == 2
        assert f"can't listen on 127.0.0.1:{port}: Address already in use" in done.stderr
        assert f"ss -ltnp 'sport = :{port}'" in done.stderr and "another port with --port" in done.stderr
        assert "Traceback" not in done.stderr


def test_gagpo_up_names_the_option_of_a_port_that_is_taken_before_it_starts_anything(taken_port: int) -> None:
    done = start("gagpo", "up", "--servers-only", "--env-port", str(taken_port), "--trainer-port", str(free_port()))
    assert done.returncode == 1
    assert f"env server: can't listen on 127.0.0.1:{taken_port}" in done.stderr and "with --env-port" in done.stderr


def test_a_redis_that_may_evict_is_refused_by_every_service_that_keeps_something_there(evicting_redis: str) -> None:
    port = str(free_port())
    for done in (
        start("services.env_server", "--port", port, REDIS_URL=evicting_redis),
        start("services.orchestrator", "--follow", *SERVERS, "--port", port, REDIS_URL=evicting_redis),
        start("services.trainer.server", "--port", port, REDIS_URL=evicting_redis),
    ):
        assert done.returncode == 2
        assert "maxmemory-policy is 'allkeys-lru'" in done.stderr
        assert "redis-cli CONFIG SET maxmemory-policy noeviction" in done.stderr and "Traceback" not in done.stderr


def test_data_that_is_not_there_is_named_with_how_to_get_it_and_no_trace(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    done = start(
        "services.env_server",
        *("--port", str(free_port())),
        ALFWORLD_DATA=missing,
        GAGPO_ENV_SERVE='["alfworld"]',
        GAGPO_ENV_WORKERS="1",
    )
    assert done.returncode == 3
    assert f"ALFWORLD_DATA: {missing} does not exist" in done.stderr
    assert "gagpo data generate alfworld" in done.stderr and "Traceback" not in done.stderr


def test_a_service_that_the_system_killed_is_told_with_the_likely_reason(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path / "logs") as processes:
        processes.start(ServiceSpec("trainer", ["sh", "-c", "echo last words; kill -9 $$"]))
        give_up = time.monotonic() + 60
        while processes.exit_code("trainer") is None:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        with pytest.raises(ServiceDiedError) as caught:
            processes.check()
    said = str(caught.value)
    assert "trainer was ended by SIGKILL: most often" in said and "memory runs out" in said and "last words" in said


def test_a_training_process_that_the_system_killed_ends_its_job_with_the_likely_reason() -> None:
    ending = ending_of(-9, None, "the last line")
    assert ending.lost and "SIGKILL: most often the system's doing when memory runs out" in ending.reason
    assert "the last line" in ending.reason
    assert "memory" not in ending_of(-15, None, "").reason
