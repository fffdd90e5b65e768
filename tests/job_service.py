"""The trainer service as a process with real workers, between a real Redis, a real env server and made-up groups."""

import signal
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from shared.buffer import JobStore
from shared.schemas.job import Job, JobDetail, JobState
from tests.policy_processes import write_tiny_model
from tests.processes import ServiceProcess, start_env_server, start_redis, start_service
from tests.training import WeightEndpoint, add_groups, start_weight_endpoint, training_group, write_recipe

Document = dict[str, object]


@dataclass
class JobSystem:
    """Everything around a trainer service."""

    folder: Path
    redis_url: str
    env_url: str
    endpoint: WeightEndpoint
    model: Path
    recipes: dict[str, Document] = field(default_factory=dict)

    @property
    def runs(self) -> Path:
        """The jobs' run folders."""
        return self.folder / "runs"

    def recipe(self, *, steps: int = 2, epochs: int = 1, checkpoint_every: int = 1, keep: int = 2) -> Document:
        """A recipe that the servers can train, as its TOML reads."""
        file = write_recipe(
            self.folder, steps=steps, epochs=epochs, checkpoint_every=checkpoint_every, keep_checkpoints=keep
        )
        return tomllib.loads(file.read_text()) | {"evaluation": {"episodes": 0}}

    def add_groups(self, job: str, steps: range) -> None:
        """As an orchestrator does."""
        add_groups(self.redis_url, job, [training_group(step, index) for step in steps for index in range(4)])

    def store(self) -> JobStore:
        """The jobs in Redis."""
        return JobStore(self.redis_url)

    @contextmanager
    def trainer(self, **variables: str) -> "Iterator[TrainerUnderTest]":
        """A running trainer service."""
        given = {
            "REDIS_URL": self.redis_url,
            "GAGPO_TRAINER_RUNS": str(self.runs),
            "GAGPO_TRAINER_ENV_URL": self.env_url,
            "GAGPO_TRAINER_POLICY_URL": self.endpoint.url,
            "GAGPO_TRAINER_THREADS": "1",
            "GAGPO_TRAINER_HEARTBEAT_S": "0.5",
            "GAGPO_TRAINER_RESTART_WAIT_S": "0.1",
            **variables,
        }
        with start_service("services.trainer.server", given) as process:
            yield TrainerUnderTest(process, process.url + "/v1/jobs")


@dataclass(frozen=True)
class TrainerUnderTest:
    """A running trainer service, spoken to as any client does."""

    process: ServiceProcess
    jobs: str
    """URL of the jobs."""

    def submit(self, recipe: Document, job: str | None = None) -> httpx.Response:
        """``POST /v1/jobs``."""
        return httpx.post(self.jobs, json={"recipe": recipe} | ({"id": job} if job else {}), timeout=30)

    def show(self, job: str) -> JobDetail:
        """``GET /v1/jobs/{id}``."""
        return JobDetail.model_validate_json(self.get(job).content)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """``GET`` below the jobs; every answer but a success is an error."""
        return httpx.get(f"{self.jobs}/{path}", headers=headers, timeout=30).raise_for_status()

    def post(self, path: str) -> httpx.Response:
        """``POST`` without a body."""
        return httpx.post(f"{self.jobs}/{path}", timeout=30)

    def wait_for(self, job: str, *states: JobState, deadline_s: float = 240.0) -> Job:
        """The job, once it is in one of the states."""
        give_up = time.monotonic() + deadline_s
        while (shown := self.show(job)).state not in states:
            assert time.monotonic() < give_up, f"{shown}\n{self.process.log.read_text()[-4000:]}"
            assert not shown.state.over, shown
            time.sleep(0.1)
        return shown

    def wait_for_version(self, job: str, version: int, deadline_s: float = 240.0) -> None:
        """Wait until so many training steps are done and published."""
        give_up = time.monotonic() + deadline_s
        while self.show(job).policy_version < version:
            assert time.monotonic() < give_up, self.show(job)
            time.sleep(0.1)

    def worker_pid(self) -> int:
        """The process id of the training worker, the service's only child."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(found) == 1, found
        return int(found[0])

    def stop(self) -> float:
        """SIGTERM; the seconds until it has ended."""
        start = time.monotonic()
        self.process.process.send_signal(signal.SIGTERM)
        self.process.process.wait(20)
        return time.monotonic() - start


@contextmanager
def start_job_system(folder: Path) -> Iterator[JobSystem]:
    """Redis, an env server with the maze, and a stand-in for the policy server's weights."""
    model = write_tiny_model(folder / "model")
    with ExitStack() as running:
        redis_url = running.enter_context(start_redis())
        env = running.enter_context(start_env_server(REDIS_URL=redis_url))
        endpoint = running.enter_context(start_weight_endpoint())
        endpoint.model = model
        yield JobSystem(folder, redis_url, env.url, endpoint, model)
