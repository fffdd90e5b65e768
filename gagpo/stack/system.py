"""Which services make up the system, and how each is started on this machine."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from gagpo.ports import free_port
from gagpo.redis_server import RedisServer, start_redis
from gagpo.stack.processes import ProcessGroup, ServiceSpec
from shared.recipe import Recipe


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """A job and where it runs."""

    job: str
    recipe_file: Path
    recipe: Recipe
    run_folder: Path
    redis_url: str | None = None
    """An existing Redis; None starts an embedded one whose files live in the run's folder."""
    environment: dict[str, str] = field(default_factory=dict)
    """More variables for the env server, such as ``ALFWORLD_DATA``."""
    serve_all: bool = False
    """Serve every environment that is registered, not just the recipe's."""
    env_port: int | None = None
    policy_port: int | None = None
    orchestrator_port: int | None = None
    trainer_port: int | None = None


class LocalSystem:
    """Redis, env server, policy server, orchestrator and trainer as processes of this machine.

    Leaving the ``with`` block stops everything that was started.
    """

    def __init__(self, settings: SystemSettings) -> None:
        """Starts nothing yet."""
        self._settings = settings
        self._processes = ProcessGroup(settings.run_folder / "logs")
        self._redis: RedisServer | None = None
        self.env_url = f"http://127.0.0.1:{settings.env_port or free_port()}"
        self.policy_url = f"http://127.0.0.1:{settings.policy_port or free_port()}"
        self.orchestrator_url = f"http://127.0.0.1:{settings.orchestrator_port or free_port()}"
        self.trainer_url = f"http://127.0.0.1:{settings.trainer_port or free_port()}"
        """The job API, once `start_job_services` was called."""
        self.redis_url = settings.redis_url or ""

    def __enter__(self) -> Self:
        """Nothing runs until one of the ``start`` methods is called."""
        self._processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the services, then the Redis that they used."""
        self._processes.stop()
        if self._redis is not None:
            self._redis.stop()

    def start_servers(self, tick: Callable[[str], None] | None = None) -> None:
        """Start Redis, the env server and the policy server, and wait until they are ready."""
        if not self.redis_url:
            self._redis = start_redis(self._settings.run_folder / "redis")
            self.redis_url = self._redis.url
        self._processes.start(self._env_server())
        self._processes.start(self._policy_server())
        self._processes.wait_ready(tick)

    def start_training(self, tick: Callable[[str], None] | None = None) -> None:
        """Start the trainer and the orchestrator on the recipe; the servers must be ready."""
        self._processes.start(self._trainer())
        self._processes.start(self._orchestrator())
        self._processes.wait_ready(tick)

    def start_job_services(self, tick: Callable[[str], None] | None = None) -> None:
        """Start the trainer service and the orchestrator that follows its jobs; the servers must be ready."""
        self._processes.start(self._trainer_service())
        self._processes.start(self._orchestrator(following=True))
        self._processes.wait_ready(tick)

    def trainer_exit_code(self) -> int | None:
        """The trainer's exit code, None while it runs."""
        return self._processes.exit_code("trainer")

    def check(self) -> None:
        """Raise `ServiceDiedError` if a service has ended with an error."""
        self._processes.check()

    def pids(self) -> dict[str, int]:
        """Service name → process id."""
        return self._processes.pids()

    def _env_server(self) -> ServiceSpec:
        return ServiceSpec(
            name="env-server",
            argv=[*_module("services.env_server"), "--port", _port(self.env_url)],
            environment={"REDIS_URL": self.redis_url, **self._serve(), **self._settings.environment},
            ready_url=f"{self.env_url}/readyz",
            ready_deadline_s=300.0,
        )

    def _serve(self) -> dict[str, str]:
        if self._settings.serve_all:
            return {}
        return {"GAGPO_ENV_SERVE": json.dumps([one.name for one in self._settings.recipe.environments])}

    def _policy_server(self) -> ServiceSpec:
        recipe = self._settings.recipe
        pointer = self._settings.run_folder / "weights" / "latest.json"
        return ServiceSpec(
            name="policy-server",
            argv=[
                *_module("services.policy_server"),
                *("--model", str(recipe.model.path), "--port", _port(self.policy_url)),
                *("--max-model-len", str(recipe.longest_sequence), "--weights-pointer", str(pointer)),
            ],
            ready_url=f"{self.policy_url}/readyz",
            ready_deadline_s=900.0,
        )

    def _orchestrator(self, following: bool = False) -> ServiceSpec:
        job = ["--job", self._settings.job, "--recipe", str(self._settings.recipe_file)]
        return ServiceSpec(
            name="orchestrator",
            argv=[
                *_module("services.orchestrator"),
                *(["--follow"] if following else job),
                *("--env-url", self.env_url, "--policy-url", self.policy_url),
                *("--port", _port(self.orchestrator_url)),
            ],
            environment={"REDIS_URL": self.redis_url},  # a command line, which may hold no password, is seen by all
            ready_url=f"{self.orchestrator_url}/readyz",
        )

    def _trainer_service(self) -> ServiceSpec:
        return ServiceSpec(
            name="trainer",
            argv=[*_module("services.trainer.server"), "--port", _port(self.trainer_url)],
            environment={
                "REDIS_URL": self.redis_url,
                "GAGPO_TRAINER_RUNS": str(self._settings.run_folder / "runs"),
                "GAGPO_TRAINER_ENV_URL": self.env_url,
                "GAGPO_TRAINER_POLICY_URL": self.policy_url,
                "GAGPO_TRAINER_MODEL": str(self._settings.recipe.model.path),
            },
            ready_url=f"{self.trainer_url}/readyz",
        )

    def _trainer(self) -> ServiceSpec:
        return ServiceSpec(
            name="trainer",
            argv=[
                *_module("services.trainer"),
                *("--job", self._settings.job, "--recipe", str(self._settings.recipe_file)),
                *("--run-dir", str(self._settings.run_folder)),
                *("--policy-url", self.policy_url),
            ],
            environment={"REDIS_URL": self.redis_url},
        )

    def evaluation_argv(self, out: Path) -> list[str]:
        """The command that evaluates the policy being served and writes the report to ``out``."""
        return [
            *_module("services.orchestrator.evaluate"),
            *("--recipe", str(self._settings.recipe_file), "--env-url", self.env_url),
            *("--policy-url", self.policy_url, "--out", str(out)),
        ]


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def _port(url: str) -> str:
    return url.rsplit(":", 1)[1]


def redis_from_environment() -> str | None:
    """``REDIS_URL``, or None where it is unset or empty."""
    return os.environ.get("REDIS_URL") or None
