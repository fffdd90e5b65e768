"""One set of servers for all of the orchestrator's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.schemas.job import JobState
from tests.orchestrator_stack import WORDS, Stack, make_stack, start_servers
from tests.tokenizers import write_tokenizer


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
