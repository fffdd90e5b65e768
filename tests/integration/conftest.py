"""What several test files need: servers for the orchestrator's tests, Redis and a weight endpoint for the trainer's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.schemas.job import JobState
from tests.job_service import JobSystem, start_job_system
from tests.orchestrator_stack import WORDS, Stack, make_stack, start_servers
from tests.policy_processes import write_tiny_model
from tests.processes import start_redis
from tests.tokenizers import write_tokenizer
from tests.training import WeightEndpoint, start_weight_endpoint


@pytest.fixture(scope="session")
def orchestrator_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The servers, started once; `stack` gives each test a job of its own."""
    with start_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture
def stack(orchestrator_servers: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A job of the test's own."""
    servers = orchestrator_servers
    write_tokenizer(tmp_path / "model", WORDS)
    job = f"job-{abs(hash(request.node.name))}"
    made = make_stack(tmp_path, job, servers.redis_url, servers.env_urls, servers.policy_url)
    made.control(reset=True)
    made.channel.set_state(JobState.RUNNING)
    yield made
    made.channel.close()


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """A Redis of the test file's own."""
    with start_redis() as url:
        yield url


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model in ``model``, where the test file's recipes go."""
    folder = tmp_path_factory.mktemp("trainer")
    write_tiny_model(folder / "model")
    return folder


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobSystem]:
    """Redis, an env server and weights to push to: what a trainer service needs around it."""
    with start_job_system(tmp_path_factory.mktemp("jobs")) as running:
        yield running


@pytest.fixture
def endpoint() -> Iterator[WeightEndpoint]:
    """A policy server's weight routes, as a trainer pushes to them."""
    with start_weight_endpoint() as running:
        yield running
