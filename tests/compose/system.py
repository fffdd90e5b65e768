"""A Docker engine, and the system of docker-compose.yml on it, as an operator handles it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gagpo.client import Client
from gagpo.ports import free_port
from tests.processes import REPOSITORY

SERVICES = ("redis", "env-server", "policy-server", "orchestrator", "trainer")
BUILT = ("env-server", "policy-server", "orchestrator", "trainer")
SETUP = "GAGPO_DOCKER_SETUP"
HEALTHY_DEADLINE_S = 180.0
_ENV_PORTS = 4


def engine_missing() -> str | None:
    """Why there is no Docker engine with Compose; None where there is one.

    ``GAGPO_DOCKER_SETUP`` may name a command that brings one up.
    """
    if not _engine_answers() and SETUP in os.environ:
        subprocess.run(os.environ[SETUP], shell=True, check=True)
    if shutil.which("docker") is None:
        return f"no `docker` command here; {SETUP} may name a script that brings an engine up"
    if not _engine_answers():
        return f"no Docker engine answers `docker version`; {SETUP} may name a script that brings one up"
    if _run(["docker", "compose", "version"], check=False).returncode != 0:
        return "this Docker has no Compose"
    return None


def image_bytes(service: str) -> int:
    """Size of a service's image."""
    return int(_run(["docker", "image", "inspect", "--format", "{{.Size}}", f"gagpo-{service}"]).stdout)


def in_image(service: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a fresh container of a service's image, under the compose file's restrictions."""
    flags = ["--rm", "--read-only", "--tmpfs", "/tmp", "--network", "none", "--cap-drop", "ALL"]
    program, *arguments = command
    return _run(["docker", "run", *flags, "--entrypoint", program, f"gagpo-{service}", *arguments], check=False)


@dataclass(slots=True)
class ComposeSystem:
    """The system under a project name, ports and a token of its own."""

    project: str
    token: str
    trainer_port: int
    env_ports: range

    @property
    def url(self) -> str:
        """The trainer, as it is published."""
        return f"http://127.0.0.1:{self.trainer_port}"

    def client(self) -> Client:
        """A client outside of the containers' network."""
        return Client(self.url, self.token)

    def compose(self, *arguments: str, deadline_s: float = 120.0, check: bool = True) -> str:
        """``docker compose`` on this project; what it printed."""
        command = ["docker", "compose", "--project-name", self.project, *arguments]
        return _run(command, deadline_s, check, self._variables()).stdout

    def up(self, **replicas: int) -> float:
        """Start everything and wait until all is healthy; the seconds that it took."""
        scale = [flag for name, count in replicas.items() for flag in ("--scale", f"{name.replace('_', '-')}={count}")]
        started = time.monotonic()
        self.compose("up", "--detach", "--no-build", *scale, deadline_s=HEALTHY_DEADLINE_S + 60)
        self.wait_healthy(HEALTHY_DEADLINE_S + 60)
        return time.monotonic() - started

    def wait_healthy(self, deadline_s: float) -> None:
        """Until every container of the services that stay up is healthy."""
        give_up = time.monotonic() + deadline_s
        while ill := {name: health for name, health in self.health().items() if health != "healthy"}:
            assert time.monotonic() < give_up, f"not healthy: {ill}\n{self.compose('logs', '--tail', '20')}"
            time.sleep(1)

    def health(self) -> dict[str, str]:
        """Container → its health, of the services that stay up."""
        lines = self.compose("ps", "--all", "--format", "json").splitlines()
        entries = [json.loads(line) for line in lines]
        return {one["Name"]: one["Health"] or one["State"] for one in entries if one["Service"] in SERVICES}

    def containers(self, service: str) -> list[str]:
        """Ids of a service's running containers."""
        return self.compose("ps", "--quiet", service).split()

    def crash(self, service: str) -> None:
        """End every process of a service's first container at once, as a lack of memory would; it is started anew."""
        before = _started_at(container := self.containers(service)[0])
        _run(["docker", "exec", container, "python", "-c", "import os; os.kill(-1, 9)"], check=False)
        give_up = time.monotonic() + 60
        while _started_at(container) == before:
            assert time.monotonic() < give_up, f"{service} was not started anew"
            time.sleep(0.5)

    def kill(self, service: str) -> None:
        """``docker kill`` of one container of a service, which stays dead: an operator's kill counts as wanted."""
        _run(["docker", "kill", self.containers(service)[0]])

    def _variables(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("GAGPO_", "COMPOSE_"))}
        return ours | {
            "GAGPO_TOKEN": self.token,
            "GAGPO_TRAINER_PORT": str(self.trainer_port),
            "GAGPO_ENV_PORTS": f"{self.env_ports[0]}-{self.env_ports[-1]}",
            "GAGPO_WHEELS": _wheels(),
        }


@contextmanager
def compose_system() -> Iterator[ComposeSystem]:
    """A project that is taken down at the end, volumes and all."""
    system = ComposeSystem(
        project=f"gagpo-test-{secrets.token_hex(4)}",
        token=secrets.token_urlsafe(32),
        trainer_port=free_port(),
        env_ports=_free_range(_ENV_PORTS),
    )
    try:
        yield system
    finally:
        system.compose("down", "--volumes", "--timeout", "10", deadline_s=120, check=False)


def _engine_answers() -> bool:
    return shutil.which("docker") is not None and _run(["docker", "version"], check=False).returncode == 0


def _started_at(container: str) -> str:
    return _run(["docker", "inspect", "--format", "{{.State.StartedAt}} {{.State.Running}}", container]).stdout


def _wheels() -> str:
    """The builds' folder of wheels: ``GAGPO_WHEELS``, or the one that pip is told of."""
    given = os.environ.get("GAGPO_WHEELS") or os.environ.get("PIP_FIND_LINKS", "")
    return given if Path(given).is_dir() and given else str(REPOSITORY / "deploy/wheels")


def _free_range(size: int) -> range:
    while True:
        first = free_port()
        ports = range(first, first + size)
        if ports[-1] < 65536 and all(map(_is_free, ports)):
            return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _run(
    command: list[str], deadline_s: float = 120.0, check: bool = True, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, timeout=deadline_s, check=False
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done
