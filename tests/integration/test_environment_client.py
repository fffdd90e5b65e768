"""The Python client against a real env server."""

from collections.abc import Iterator

import pytest

from gagpo.environment_client import EnvironmentClient, EnvironmentServerError
from gagpo.ports import free_port
from shared.schemas.environment import SessionRequest
from tests.processes import MAZE, start_service


@pytest.fixture(scope="module")
def client() -> Iterator[EnvironmentClient]:
    with start_service("services.env_server", MAZE) as service, EnvironmentClient(service.url) as connected:
        yield connected


def test_a_session_is_opened_stepped_and_closed(client: EnvironmentClient) -> None:
    (description,) = client.environments()
    page = client.tasks("maze", "train")
    assert (description.name, page.total) == ("maze", description.splits["train"])

    first, twin = client.open(SessionRequest(environment="maze", task_id=page.tasks[0], count=2))
    assert first.observation == twin.observation
    result = client.step(first.session_id, first.admissible_actions[0], first.step_index)
    assert result.step_index == 1
    assert client.step(first.session_id, first.admissible_actions[0], first.step_index) == result

    client.close_session(first.session_id)
    with pytest.raises(EnvironmentServerError) as caught:
        client.step(first.session_id, "north", 1)
    assert caught.value.problem is not None
    assert caught.value.problem.type == "/problems/unknown-session"


def test_no_server_is_an_error_that_says_how_to_start_one() -> None:
    with (
        EnvironmentClient(f"http://127.0.0.1:{free_port()}") as alone,
        pytest.raises(EnvironmentServerError, match=r"python -m services\.env_server"),
    ):
        alone.environments()
