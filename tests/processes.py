"""Real servers for the tests: started as processes on free ports, waited for, and always ended."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from gagpo import redis_server
from gagpo.ports import free_port

REPOSITORY = Path(__file__).parents[1]
READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 15.0

MAZE = {
    "GAGPO_ENV_ENVIRONMENTS": '{"maze": "tests.environments.maze:MazeFamily"}',
    "GAGPO_ENV_SERVE": '["maze"]',
    "GAGPO_ENV_WORKERS": "2",
}
"""Variables of an env server that serves the tests' maze."""

MAZE_AND_BEACH = {
    "GAGPO_ENV_ENVIRONMENTS": json.dumps(
        {"maze": "tests.environments.maze:MazeFamily", "beach": "tests.environments.beach:BeachFamily"}
    ),
    "GAGPO_ENV_SERVE": '["maze", "beach"]',
}
"""Variables of one that serves the tests' beach as well."""


@dataclass(slots=True)
class ServiceProcess:
    """A running service."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The service's own process id."""
        return self.process.pid

    def kill(self) -> None:
        """As a power cut would end it."""
        self.process.kill()
        self.process.wait(STOP_DEADLINE_S)

    def stop(self) -> int:
        """As an operator would end it; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return self.process.returncode


@contextmanager
def start_redis() -> Iterator[str]:
    """A real Redis with a folder of its own; its URL."""
    with tempfile.TemporaryDirectory() as folder, redis_server.start_redis(Path(folder)) as server:
        yield server.url


@contextmanager
def start_service(
    module: str,
    variables: Mapping[str, str],
    deadline_s: float = READY_DEADLINE_S,
    flags: Sequence[str] = (),
    port: int | None = None,
) -> Iterator[ServiceProcess]:
    """``python -m <module> --port <free>``, ready at ``/readyz``. Its log is shown when it does not become ready."""
    port = free_port() if port is None else port
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--port", str(port), *flags],
                cwd=REPOSITORY,
                env={**without_settings(), **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        service = ServiceProcess(url, process, log)
        try:
            _wait_until_ready(service, deadline_s)
            yield service
        finally:
            service.stop()


@contextmanager
def start_env_server(**variables: str) -> Iterator[ServiceProcess]:
    """An env server that serves the maze, unless the variables say otherwise."""
    with start_service("services.env_server", {**MAZE, **variables}) as service:
        yield service


def without_settings() -> dict[str, str]:
    """This process's variables without those that would set up a service in an unexpected way."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GAGPO_") and name != "REDIS_URL"}


def processes_of(folder: Path) -> dict[int, str]:
    """Processes that have a folder in their command line or write their output into it: pid → command line."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                output = str((process / "fd" / "1").readlink())
            except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended while we looked, or isn't ours
                continue
            if str(folder) in command or output.startswith(str(folder)):
                found[int(process.name)] = command
    return found


def _wait_until_ready(service: ServiceProcess, deadline_s: float) -> None:
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            if httpx.get(service.url + "/readyz", timeout=2.0).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if service.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{service.url} did not become ready:\n{service.log.read_text()[-4000:]}")
        time.sleep(0.05)
