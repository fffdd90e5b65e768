"""The processes of one training job, beside servers that run already."""

from collections.abc import Callable
from pathlib import Path

from gagpo.ports import free_port
from gagpo.stack.processes import ServiceSpec
from gagpo.stack.servers import LocalServers, module_argv, port_of
from gagpo.stack.service_set import ServiceSet


class LocalJob(ServiceSet):
    """Trainer and orchestrator. Leaving the ``with`` block stops them; the servers stay."""

    def __init__(
        self,
        servers: LocalServers,
        recipe_file: Path,
        run_folder: Path,
        redis_url: str,
        *,
        job: str | None = None,
    ) -> None:
        """Starts nothing yet. The job's id is the folder's name unless ``job`` says another; logs go to its ``logs``.

        ``redis_url`` holds the job's groups and events; it need not be the servers' own.
        """
        super().__init__(run_folder / "logs")
        self._servers = servers
        self._recipe_file = recipe_file
        self._run_folder = run_folder
        self._redis_url = redis_url
        self._job = job or run_folder.name
        self._orchestrator_url = f"http://127.0.0.1:{free_port()}"

    def start(self, tick: Callable[[str], None] | None = None) -> None:
        """Start them on the recipe; the servers must be ready. Raises `ServiceDiedError`."""
        self._processes.start(self._trainer())
        self._processes.start(self._orchestrator())
        self._processes.wait_ready(tick)

    def trainer_exit_code(self) -> int | None:
        """The trainer's exit code, None while it runs."""
        return self._processes.exit_code("trainer")

    def check(self) -> None:
        """Raise `ServiceDiedError` if one of the two, or a server, has ended that should not have."""
        self._servers.check()
        super().check()

    def _trainer(self) -> ServiceSpec:
        return ServiceSpec(
            name="trainer",
            argv=[
                *module_argv("services.trainer"),
                *("--job", self._job, "--recipe", str(self._recipe_file)),
                *("--run-dir", str(self._run_folder)),
                *("--policy-url", self._servers.policy_url),
            ],
            environment={"REDIS_URL": self._redis_url},
            may_end=True,
        )

    def _orchestrator(self) -> ServiceSpec:
        what = ["--job", self._job, "--recipe", str(self._recipe_file)]
        return orchestrator_spec(self._servers, self._orchestrator_url, self._redis_url, what, may_end=True)


def orchestrator_spec(
    servers: LocalServers, url: str, redis_url: str, what: list[str], *, may_end: bool = False
) -> ServiceSpec:
    """An orchestrator on the servers that serves ``what``: one job, after which it ends, or whatever job is active."""
    return ServiceSpec(
        name="orchestrator",
        argv=[
            *module_argv("services.orchestrator"),
            *what,
            *("--env-url", servers.env_url, "--policy-url", servers.policy_url),
            *("--port", port_of(url)),
        ],
        environment={"REDIS_URL": redis_url},  # a command line, which may hold no password, is seen by all
        ready_url=f"{url}/readyz",
        may_end=may_end,
    )
