"""Agents play ALFWorld and WebShop through `gagpo mcp`, with the official client, over stdio and over HTTP."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from gagpo.environment_client import EnvironmentClient
from gagpo.mcp_server import EnvironmentTools, make_server, serve_http
from gagpo.ports import free_port
from shared.service.listening import ListenError
from tests.data_paths import real_data
from tests.processes import REPOSITORY, ServiceProcess, start_env_server, without_settings

SPLITS = {"alfworld": "valid_unseen", "webshop": "synthetic_valid"}
EXPERT = {"expert": True}
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    alfworld = str(real_data("alfworld"))
    with start_env_server(
        GAGPO_ENV_SERVE='["alfworld", "webshop", "maze"]', GAGPO_ENV_WORKERS="1", ALFWORLD_DATA=alfworld
    ) as service:
        yield service


@asynccontextmanager
async def over_stdio(*arguments: str, **variables: str) -> AsyncIterator[Client]:
    environment = {**without_settings(), **variables}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "gagpo", "mcp", *arguments], env=environment, cwd=REPOSITORY
    )
    async with Client(stdio_client(command), read_timeout_seconds=PATIENCE_S) as client:
        yield client


@asynccontextmanager
async def at_hand(server: ServiceProcess, only: str | None = None) -> AsyncIterator[Client]:
    """The same tools and client without a process between them."""
    with EnvironmentClient(server.url) as rest:
        async with Client(make_server(EnvironmentTools(rest, only, lambda: None))) as client:
            yield client


@contextmanager
def http_server(*arguments: str, **variables: str) -> Iterator[str]:
    """`gagpo mcp --http`; the URL for clients."""
    port = free_port()
    command = [sys.executable, "-m", "gagpo", "mcp", "--http", "--port", str(port), *arguments]
    process = subprocess.Popen(command, cwd=REPOSITORY, env={**without_settings(), **variables})
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        deadline = time.monotonic() + PATIENCE_S
        while not _listens(port):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2.0).close()
    except OSError:
        return False
    return True


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, words(result)
    assert result.structured_content is not None
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return words(result)


def words(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def win(client: Client, environment: str, index: int) -> str:
    """Play a task by the expert's hints, to its end; the episode's id."""
    told = await call(client, "reset", environment=environment, split=SPLITS[environment], index=index, options=EXPERT)
    while not told["done"]:
        hint = told["info"]["expert_action"]
        told = await call(client, "step", episode=told["episode"], action=hint)
    assert (told["info"]["won"], told["reward"]) == (True, 1.0)
    episode: str = told["episode"]
    return episode


async def test_agents_win_several_episodes_side_by_side_over_stdio(server: ServiceProcess) -> None:
    async with over_stdio("--url", server.url) as client:
        played = await asyncio.gather(*(win(client, environment, index) for environment in SPLITS for index in (0, 1)))
        assert len(set(played)) == 4
        for episode in played:
            seen = await call(client, "observe", episode=episode)
            assert (seen["done"], seen["info"]["won"]) == (True, True)
            assert "The episode ended after" in await refused(client, "step", episode=episode, action="look")


async def test_agents_win_over_http_and_an_episode_outlives_its_connection(server: ServiceProcess) -> None:
    with http_server("--url", server.url) as url:
        async with Client(url, read_timeout_seconds=PATIENCE_S) as one, Client(url) as other:
            await asyncio.gather(win(one, "alfworld", 2), win(other, "webshop", 2))
            opened = await call(one, "reset", environment="maze", task_id="maze-9")
            stepped = await call(one, "step", episode=opened["episode"], action="north")
        async with Client(url) as later:
            seen = await call(later, "observe", episode=opened["episode"])
            assert seen == {**stepped, "reward": None}
            await call(later, "step", episode=opened["episode"], action="north")


async def test_what_a_model_reads_says_what_is_seen_and_what_can_be_done(server: ServiceProcess) -> None:
    async with at_hand(server, "maze") as client:
        assert client.instructions is not None
        assert "reset opens an episode" in client.instructions
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"list_environments", "list_tasks", "reset", "step", "observe"}
        for tool in tools.values():
            assert tool.description
            assert all(said["description"] for said in tool.input_schema["properties"].values())
        opened = await client.call_tool("reset", {"task_id": "maze-3"})
        assert opened.structured_content is not None
        episode = opened.structured_content["episode"]
        assert "You wake up in a maze." in words(opened)
        assert "- north\n- south\n" in words(opened)
        assert f"Episode {episode}, 0 steps taken." in words(opened)
        assert "Nothing happens." in words(await client.call_tool("step", {"episode": episode, "action": "dance"}))


async def test_reset_draws_a_task_to_train_on_or_takes_the_one_that_is_named(server: ServiceProcess) -> None:
    async with at_hand(server, "maze") as client:
        (maze,) = (await call(client, "list_environments"))["environments"]
        assert (maze["name"], maze["usual_split"], maze["splits"]["valid"]) == ("maze", "train", 5)
        tasks = (await call(client, "list_tasks", environment="maze", split="train"))["tasks"]
        by_chance = {(await call(client, "reset"))["task_id"] for _ in range(12)}
        assert len(by_chance) > 1
        assert by_chance <= set(tasks)
        assert (await call(client, "reset", index=2))["task_id"] == tasks[2]
        assert (await call(client, "reset", split="valid", index=1))["task_id"] == "maze-24"
        seeded = [(await call(client, "reset", seed=5))["task_id"] for _ in range(2)]
        assert seeded[0] == seeded[1]


async def test_what_the_server_refuses_is_a_tool_error_in_its_words(server: ServiceProcess) -> None:
    async with at_hand(server) as client:
        assert "environment is missing; there are: alfworld, maze, webshop" in await refused(client, "reset")
        assert "'chess' is none of those offered" in await refused(client, "reset", environment="chess")
        said = await refused(client, "reset", environment="maze", split="sung")
        assert "split: 'sung' is none of the environment's; there are: train, valid" in said
        both = await refused(client, "reset", environment="maze", task_id="maze-3", seed=1)
        assert "name the task in exactly one way" in both
        assert "There is no session 'none?'" in await refused(client, "observe", episode="none?")
        assert "Not Found" in await refused(client, "observe", episode="../environments")
        opened = await call(client, "reset", environment="maze", task_id="maze-3")
        two_lines = await refused(client, "step", episode=opened["episode"], action="north\nnorth")
        assert "an action is one line without control characters" in two_lines
        assert (await call(client, "step", episode=opened["episode"], action="north"))["steps_taken"] == 1


async def test_without_a_url_it_starts_an_env_server_and_ends_it() -> None:
    data = str(real_data("alfworld"))
    others = _env_servers(data)
    async with over_stdio("--environment", "alfworld", ALFWORLD_DATA=data) as client:
        opened = await call(client, "reset", split="valid_seen", index=0, options=EXPERT)
        assert opened["info"]["expert_action"] in opened["admissible_actions"]
        children = _env_servers(data) - others
        assert children
    for _ in range(200):
        if not children & _env_servers(data):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("its env server is still running")


def _env_servers(data: str) -> set[int]:
    """Env servers with this data."""
    found = set()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/environ", "rb") as environ:  # noqa: PTH123
                if b"services.env_server" in command.read() and data.encode() in environ.read():
                    found.add(pid)
        except OSError:
            continue
    return found


async def test_over_http_a_token_is_asked_for(server: ServiceProcess) -> None:
    token = "a-token-of-environments"
    with http_server("--url", server.url, GAGPO_TOKEN_ENVIRONMENTS=token) as url:
        async with httpx2.AsyncClient() as nobody:
            assert (await nobody.post(url, json={})).status_code == 401
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert (await call(client, "list_environments"))["environments"]


async def test_a_server_that_is_not_there_is_a_tool_error_that_says_how_to_start_one() -> None:
    with EnvironmentClient(f"http://127.0.0.1:{free_port()}") as nobody:
        async with Client(make_server(EnvironmentTools(nobody, None, lambda: None))) as client:
            assert "python -m services.env_server" in await refused(client, "list_environments")


def test_a_port_that_is_taken_is_told_in_words(server: ServiceProcess) -> None:
    with EnvironmentClient(server.url) as rest, pytest.raises(ListenError, match="Another process listens there"):
        taken = int(server.url.rsplit(":", 1)[1])
        serve_http(make_server(EnvironmentTools(rest, None, lambda: None)), "127.0.0.1", taken, print)


def test_an_unknown_environment_is_told_at_once() -> None:
    command = [sys.executable, "-m", "gagpo", "mcp", "--environment", "chess"]
    done = subprocess.run(command, cwd=REPOSITORY, env=without_settings(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "environment = 'chess': there is alfworld, webshop." in done.stderr
    assert done.stdout == ""
