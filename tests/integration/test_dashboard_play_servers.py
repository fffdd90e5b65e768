"""The dashboard's player as a client of real env servers: which one it plays on, and answers that are lost."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from services.trainer.dashboard.play_data import Choice
from services.trainer.dashboard.play_servers import EnvServerError, EnvServers, PlayedSession
from shared.schemas.environment import SessionState
from tests.cutting_proxy import cutting_proxy
from tests.processes import free_port, start_env_server

TASK = Choice("maze", "train", 2)


@pytest.fixture(scope="module")
def small_server() -> Iterator[str]:
    """An env server that holds one session."""
    with start_env_server(GAGPO_ENV_WORKERS="1", GAGPO_ENV_MAX_SESSIONS="1") as server:
        yield server.url


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """One with room."""
    with start_env_server(GAGPO_ENV_WORKERS="1") as server:
        yield server.url


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


def _state(session: PlayedSession) -> SessionState:
    url = f"{session.url}/v1/sessions/{session.first.session_id}"
    return SessionState.model_validate_json(httpx.get(url).raise_for_status().content)


async def _open(client: httpx.AsyncClient, *urls: str) -> PlayedSession:
    servers = EnvServers(client, urls)
    offer = (await servers.offers())["maze"]
    return await servers.open(offer, TASK.request(offer.description))


async def test_a_full_server_leaves_the_session_to_the_next_one(
    client: httpx.AsyncClient, small_server: str, server: str
) -> None:
    first = await _open(client, small_server, server)
    second = await _open(client, small_server, server)
    assert (first.url, second.url) == (small_server, server)
    with pytest.raises(EnvServerError) as full:
        await _open(client, small_server)
    assert (full.value.kind, full.value.wait_s) == ("/problems/at-capacity", "5")
    await first.close()
    await first.close()  # gone already: nothing is wrong with that
    third = await _open(client, small_server)
    await third.close()


async def test_a_server_that_is_away_does_not_keep_the_others_from_being_played(
    client: httpx.AsyncClient, server: str
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    assert (await _open(client, nobody, server)).url == server
    with pytest.raises(EnvServerError) as away:
        await EnvServers(client, [nobody]).offers()
    assert (away.value.url, away.value.status) == (nobody, None)


async def test_a_server_with_other_tasks_is_not_played_on(client: httpx.AsyncClient, server: str) -> None:
    with start_env_server(GAGPO_ENV_WORKERS="1", MAZE_DIGEST="1" * 64) as other:
        offers = await EnvServers(client, [server, other.url]).offers()
        assert offers["maze"].urls == [server]


async def test_what_is_no_env_server_is_told(client: httpx.AsyncClient, server: str) -> None:
    with pytest.raises(EnvServerError, match="Not Found") as wrong:
        await EnvServers(client, [f"{server}/docs"]).offers()
    assert wrong.value.status == 404


@pytest.mark.parametrize("choose_another", [False, True])
async def test_a_step_whose_answer_was_lost_is_taken_once(
    client: httpx.AsyncClient, server: str, choose_another: bool
) -> None:
    with cutting_proxy(server, []) as proxy:
        session = await _open(client, proxy.url)
        proxy.cuts.append(200)
        await client.aclose()
        async with httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0)) as fresh:
            session = PlayedSession(fresh, proxy.url, session.first)
            with pytest.raises(EnvServerError) as lost:
                await session.step("north", 0)
            assert lost.value.status is None
            assert _state(session).step_index == 1
            turn = await session.step("south" if choose_another else "north", 0)
            assert (turn.action, turn.result.step_index) == ("north", 1)
            assert turn.result.observation == _state(session).observation
            turn = await session.step("south", 1)
            assert (turn.action, turn.result.step_index) == ("south", 2)
            await session.close()
