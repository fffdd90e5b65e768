"""The whole system of one recipe on this machine, and how each of its services is started."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gagpo.ports import free_port
from gagpo.stack.job import LocalJob, orchestrator_spec
from gagpo.stack.processes import ServiceSpec
from gagpo.stack.servers import LocalServers, ServerSettings, module_argv, port_of
from gagpo.stack.service_set import ServiceSet
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


class LocalSystem(ServiceSet):
    """Redis, env server, policy server, orchestrator and trainer as processes of this machine.

    Leaving the ``with`` block stops everything that was started.
    """

    def __init__(self, settings: SystemSettings) -> None:
        """Starts nothing yet."""
        super().__init__(settings.run_folder / "logs")
        self._settings = settings
        self._servers = LocalServers(
            ServerSettings.of(settings.recipe, settings.environment, settings.serve_all),
            settings.run_folder,
            redis_url=settings.redis_url,
            weights_pointer=weights_pointer(settings.run_folder),
            env_port=settings.env_port,
            policy_port=settings.policy_port,
        )
        self._job: LocalJob | None = None
        self.env_url, self.policy_url = self._servers.env_url, self._servers.policy_url
        self.orchestrator_url = f"http://127.0.0.1:{settings.orchestrator_port or free_port()}"
        self.trainer_url = f"http://127.0.0.1:{settings.trainer_port or free_port()}"
        """The job API, once `start_job_services` was called."""

    @property
    def redis_url(self) -> str:
        """Of the Redis in use; empty before one was started."""
        return self._servers.redis_url

    def stop(self) -> None:
        """Stop the services, then the servers that they used."""
        if self._job is not None:
            self._job.stop()
        super().stop()
        self._servers.stop()

    def start_servers(self, tick: Callable[[str], None] | None = None) -> None:
        """Start Redis, the env server and the policy server, and wait until they are ready."""
        self._servers.start(tick)

    def start_training(self, tick: Callable[[str], None] | None = None) -> None:
        """Start the trainer and the orchestrator on the recipe; the servers must be ready."""
        settings = self._settings
        self._job = LocalJob(self._servers, settings.recipe_file, settings.run_folder, self.redis_url, job=settings.job)
        self._job.start(tick)

    def start_job_services(self, tick: Callable[[str], None] | None = None) -> None:
        """Start the trainer service and the orchestrator that follows its jobs; the servers must be ready."""
        self._processes.start(self._trainer_service())
        self._processes.start(orchestrator_spec(self._servers, self.orchestrator_url, self.redis_url, ["--follow"]))
        self._processes.wait_ready(tick)

    def trainer_exit_code(self) -> int | None:
        """The trainer's exit code, None while it runs or before `start_training`."""
        return None if self._job is None else self._job.trainer_exit_code()

    def check(self) -> None:
        """Raise `ServiceDiedError` if a service has ended that should not have."""
        self._servers.check()
        super().check()
        if self._job is not None:
            self._job.check()

    def pids(self) -> dict[str, int]:
        """Service name → process id."""
        job = {} if self._job is None else self._job.pids()
        return {**self._servers.pids(), **super().pids(), **job}

    def _trainer_service(self) -> ServiceSpec:
        return ServiceSpec(
            name="trainer",
            argv=[*module_argv("services.trainer.server"), "--port", port_of(self.trainer_url)],
            environment={
                "REDIS_URL": self.redis_url,
                "GAGPO_TRAINER_RUNS": str(self._settings.run_folder / "runs"),
                "GAGPO_TRAINER_ENV_URL": self.env_url,
                "GAGPO_TRAINER_POLICY_URL": self.policy_url,
                "GAGPO_TRAINER_ORCHESTRATOR_URL": self.orchestrator_url,
                "GAGPO_TRAINER_MODEL": str(self._settings.recipe.model.path),
            },
            ready_url=f"{self.trainer_url}/readyz",
        )


def weights_pointer(run_folder: Path) -> Path:
    """The file in which a run's trainer says which weights are the latest."""
    return run_folder / "weights" / "latest.json"


def redis_from_environment() -> str | None:
    """``REDIS_URL``, or None where it is unset or empty."""
    return os.environ.get("REDIS_URL") or None
