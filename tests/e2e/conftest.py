"""One policy server for all end-to-end tests of a session: a start costs 20 s and more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.policy_processes import PolicyServer, start_policy_server, write_tiny_model
from tests.training_system import MazeSystem, start_maze_system


@pytest.fixture(scope="session")
def policy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyServer]:
    """A policy server with a tiny model whose output layer is tied to its embedding, at whatever version it has now."""
    model: Path = write_tiny_model(tmp_path_factory.mktemp("policy") / "tiny", tied=True)
    with start_policy_server(model) as server:
        yield server


@pytest.fixture(scope="session")
def maze_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MazeSystem]:
    """Redis, an env server with the maze and a policy server of its own, for training jobs."""
    with start_maze_system(tmp_path_factory.mktemp("maze")) as system:
        yield system
