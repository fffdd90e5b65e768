"""OpenEnv's own client plays ALFWorld and WebShop, and sees what a client of the REST API sees."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
from openenv.cli._validation import validate_running_environment
from openenv.core import GenericEnvClient
from openenv.core.client_types import StepResult
from openenv.core.sync_client import SyncEnvClient
from websockets.sync.client import connect

from examples.trl_grpo.train import TextGame
from tests.data_paths import real_data
from tests.processes import MAZE, ServiceProcess, start_env_server

SPLITS = {"alfworld": "valid_unseen", "webshop": "synthetic_valid"}
EXPERT = {"expert": True}


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    alfworld = str(real_data("alfworld"))
    with start_env_server(
        GAGPO_ENV_SERVE='["alfworld", "webshop", "maze"]', GAGPO_ENV_WORKERS="1", ALFWORLD_DATA=alfworld
    ) as service:
        yield service


@pytest.fixture(scope="module")
def full_server() -> Iterator[ServiceProcess]:
    """A maze for two."""
    with start_env_server(GAGPO_ENV_MAX_SESSIONS="2", GAGPO_ENV_WORKERS="1") as service:
        yield service


def client(server: ServiceProcess, environment: str) -> SyncEnvClient[Any, Any, Any]:
    return GenericEnvClient(base_url=f"{server.url}/openenv/{environment}").sync()


def rest(server: ServiceProcess, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = httpx.post(f"{server.url}{path}", json=body, timeout=60.0)
    assert response.is_success, response.text
    answer: dict[str, Any] = response.json()
    return answer


def assert_same(told: StepResult[dict[str, Any]], rest_answer: dict[str, Any]) -> None:
    """The observation, the reward and the end are the REST API's; only the session is another."""
    expected = {"reward": None, "terminated": False, "truncated": False} | rest_answer
    reward = expected.pop("reward")
    assert {**told.observation, "session_id": ""} == {**expected, "session_id": ""}
    assert told.reward == reward
    assert told.done is (expected["terminated"] or expected["truncated"])


@pytest.mark.parametrize("environment", ["alfworld", "webshop"])
def test_an_episode_is_won_and_every_answer_is_the_rest_apis(server: ServiceProcess, environment: str) -> None:
    task = {"split": SPLITS[environment], "seed": 11, "options": EXPERT, "true_state": True, "state_key": "simulator"}
    (session,) = rest(server, "/v1/sessions", {"environment": environment, **task})["sessions"]
    with client(server, environment) as playing:
        told = playing.reset(**task)
        assert_same(told, session)
        while not told.done:
            action = told.observation["info"]["expert_action"]
            told = playing.step({"action": action})
            step = {"action": action, "step_index": session["step_index"]}
            session = rest(server, f"/v1/sessions/{session['session_id']}/step", step)
            assert_same(told, session)
        assert told.observation["info"]["won"]
        assert told.reward == 1.0
        state = playing.state()
    assert (state["step_count"], state["terminated"], state["truncated"]) == (session["step_index"], True, False)
    assert (state["task_id"], state["episode_id"]) == (session["task_id"], told.observation["session_id"])


async def test_many_clients_play_at_once_and_leave_nothing_behind(server: ServiceProcess) -> None:
    async def play(environment: str, index: int) -> str:
        async with GenericEnvClient(base_url=f"{server.url}/openenv/{environment}") as playing:
            told = await playing.reset(split=SPLITS[environment], index=index, options=EXPERT)
            while not told.done:
                told = await playing.step({"action": told.observation["info"]["expert_action"]})
            assert told.observation["info"]["won"]
            session_id: str = told.observation["session_id"]
            return session_id

    sessions = await asyncio.gather(*(play(environment, index) for environment in SPLITS for index in range(6)))
    assert len(set(sessions)) == 12
    async with httpx.AsyncClient(base_url=server.url) as http:
        for session_id in sessions:
            await _until_gone(http, session_id)


async def _until_gone(http: httpx.AsyncClient, session_id: str) -> None:
    for _ in range(200):
        if (await http.get(f"/v1/sessions/{session_id}")).status_code == 404:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"session {session_id} is still there")


def test_a_reset_names_the_task_as_the_rest_api_does_or_draws_one_to_train_on(server: ServiceProcess) -> None:
    tasks = httpx.get(f"{server.url}/v1/environments/maze/tasks?split=train").json()["tasks"]
    with client(server, "maze") as playing:
        assert playing.reset(split="valid", index=2).observation["task_id"] == "maze-25"
        assert playing.reset(index=2).observation["task_id"] == tasks[2]
        assert playing.reset(task_id="maze-9", seed=1).observation["task_id"] == "maze-9"
        (drawn,) = rest(server, "/v1/sessions", {"environment": "maze", "split": "train", "seed": 5})["sessions"]
        assert playing.reset(seed=5, episode_id="mine").observation["task_id"] == drawn["task_id"]
        assert playing.state()["episode_id"] == "mine"
        by_chance = {playing.reset().observation["task_id"] for _ in range(20)}
        assert 1 < len(by_chance) <= len(tasks)
        assert by_chance <= set(tasks)


def test_the_step_limit_ends_an_episode_without_winning_it(server: ServiceProcess) -> None:
    with client(server, "maze") as playing:
        playing.reset(task_id="maze-9", max_steps=2)
        assert not playing.step({"action": "south"}).done
        last = playing.step({"action": "dance", "metadata": {"from": "a typed client"}})
    assert (last.done, last.observation["truncated"], last.observation["terminated"]) == (True, True, False)
    assert last.observation["info"]["valid_action"] is False


@pytest.mark.parametrize(
    ("reset", "said"),
    [
        ({"split": "sung"}, r"split: 'sung' is none of the environment's; there are: train, valid.*EXECUTION_ERROR"),
        ({"task_id": "maze-0"}, r"maze-0.*EXECUTION_ERROR"),
        ({"options": {"colour": "red"}}, r"colour.*VALIDATION_ERROR"),
        ({"prompt": "a column of a dataset"}, r"prompt: Extra inputs are not permitted.*VALIDATION_ERROR"),
        ({"task_id": "maze-3", "index": 1}, r"leave split and index out.*VALIDATION_ERROR"),
        ({"seed": -1}, r"seed: Input should be greater than or equal to 0.*VALIDATION_ERROR"),
    ],
)
def test_a_bad_reset_is_an_error_in_the_servers_words(server: ServiceProcess, reset: dict[str, Any], said: str) -> None:
    with client(server, "maze") as playing:
        with pytest.raises(RuntimeError, match=said):
            playing.reset(**reset)
        assert playing.reset(task_id="maze-3").observation["task_id"] == "maze-3"


def test_a_bad_step_is_an_error_and_the_episode_goes_on(server: ServiceProcess) -> None:
    with client(server, "maze") as playing:
        with pytest.raises(RuntimeError, match=r"reset first.*SESSION_ERROR"):
            playing.step({"action": "north"})
        playing.reset(task_id="maze-9")
        for bad in ({"message": "north"}, {"action": "a\nb"}, {"action": " "}, {"action": 3}):
            with pytest.raises(RuntimeError, match=r"action: .*VALIDATION_ERROR"):
                playing.step(bad)
        with pytest.raises(RuntimeError, match=r"RuntimeError.*EXECUTION_ERROR"):
            playing.step({"action": "raise"})
        assert playing.step({"action": "north"}).observation["step_index"] == 1
    with pytest.raises(RuntimeError, match=r"'labyrinth' is not served here; there are: alfworld, maze, webshop"):
        client(server, "labyrinth").reset()


def test_a_step_with_its_index_is_safe_to_send_again(server: ServiceProcess) -> None:
    with client(server, "maze") as playing:
        playing.reset(task_id="maze-9")
        first = playing.step({"action": "north", "step_index": 0})
        assert playing.step({"action": "north", "step_index": 0}) == first
        with pytest.raises(RuntimeError, match="step 0 was taken with another action"):
            playing.step({"action": "south", "step_index": 0})
        assert playing.step({"action": "south"}).observation["step_index"] == 2


def test_a_client_goes_on_after_a_step_of_its_session_that_it_does_not_know_of(server: ServiceProcess) -> None:
    with client(server, "maze") as playing:
        session = playing.reset(task_id="maze-9").observation["session_id"]
        rest(server, f"/v1/sessions/{session}/step", {"action": "north", "step_index": 0})
        with pytest.raises(RuntimeError, match="step 0 was taken with another action"):
            playing.step({"action": "south"})
        assert playing.step({"action": "south"}).observation["step_index"] == 2


def test_a_full_server_says_so_and_those_who_play_can_still_reset(full_server: ServiceProcess) -> None:
    with client(full_server, "maze") as one, client(full_server, "maze") as other, client(full_server, "maze") as third:
        one.reset()
        other.reset()
        with pytest.raises(RuntimeError, match=r"holds its 2 sessions.*CAPACITY_REACHED"):
            third.reset()
        one.reset()
        other.close()
        told = None
        for _ in range(100):
            try:
                told = third.reset()
                break
            except RuntimeError:  # the server has not yet seen the other leave
                continue
        assert told is not None


async def test_a_client_that_is_cut_off_leaves_no_session(server: ServiceProcess) -> None:
    cut_off = GenericEnvClient(base_url=f"{server.url}/openenv/maze")
    session_id = (await cut_off.reset()).observation["session_id"]
    assert cut_off._ws is not None
    cut_off._ws.transport.abort()
    async with httpx.AsyncClient(base_url=server.url) as http:
        await _until_gone(http, session_id)


def test_frames_that_are_none_are_told_so(server: ServiceProcess) -> None:
    expected = {
        "not json": "INVALID_JSON",
        '["reset"]': "VALIDATION_ERROR",
        '{"type": "reset", "more": 1}': "VALIDATION_ERROR",
        '{"type": "mcp", "data": {}}': "UNKNOWN_TYPE",
    }
    with connect(f"{server.url.replace('http', 'ws')}/openenv/maze/ws") as socket:
        for frame, code in expected.items():
            socket.send(frame)
            answer = json.loads(socket.recv(timeout=10))
            assert (answer["type"], answer["data"]["code"]) == ("error", code)
            assert answer["data"]["problem"]["status"] == 422
        socket.send(b"\x80")
        assert json.loads(socket.recv(timeout=10))["data"]["code"] == "INVALID_JSON"
        socket.send('{"type": "reset"}')
        assert json.loads(socket.recv(timeout=10))["type"] == "observation"


@pytest.mark.parametrize("environment", ["alfworld", "webshop", "maze"])
def test_openenvs_own_validator_is_content(server: ServiceProcess, environment: str) -> None:
    report = validate_running_environment(f"{server.url}/openenv/{environment}")
    assert report["summary"]["failed_criteria"] == []
    assert (report["passed"], report["mode"]) == (True, "simulation")


def test_answers_fit_the_schemas_that_are_told(server: ServiceProcess) -> None:
    base = f"{server.url}/openenv/alfworld"
    schemas = httpx.get(f"{base}/schema").json()
    action = {"action": "look", "step_index": 0}
    jsonschema.validate(action, schemas["action"])
    with client(server, "alfworld") as playing:
        for told in (playing.reset(), playing.step(action)):
            seen = {**told.observation, "reward": told.reward, "done": told.done}
            jsonschema.validate(seen, schemas["observation"])
            jsonschema.validate(playing.state(), schemas["state"])
    metadata = httpx.get(f"{base}/metadata").json()
    assert metadata["name"] == "alfworld"
    assert "valid_unseen (134 tasks)" in metadata["description"]


def test_an_episode_is_played_over_http_by_its_session(server: ServiceProcess) -> None:
    base = "/openenv/alfworld"
    opened = rest(server, f"{base}/reset", {"split": "valid_seen", "index": 3, "options": EXPERT})
    session = opened["observation"]["session_id"]
    assert (opened["reward"], opened["done"]) == (None, False)
    told = opened
    while not told["done"]:
        action = {"action": told["observation"]["info"]["expert_action"]}
        told = rest(server, f"{base}/step", {"session_id": session, "action": action})
    assert (told["reward"], told["observation"]["info"]["won"]) == (1.0, True)
    again = {"session_id": session, "action": {**action, "step_index": told["observation"]["step_index"] - 1}}
    assert rest(server, f"{base}/step", again) == told
    state = httpx.get(f"{server.url}{base}/state", params={"session_id": session}).json()
    assert (state["step_count"], state["terminated"]) == (told["observation"]["step_index"], True)


def test_the_same_reset_under_an_idempotency_key_opens_nothing_twice(server: ServiceProcess) -> None:
    body, headers = {"seed": 4}, {"Idempotency-Key": "once"}
    first, second = (
        httpx.post(f"{server.url}/openenv/maze/reset", json=body, headers=headers).json() for _ in range(2)
    )
    assert first == second


def test_the_examples_class_for_trl_plays_to_a_win(server: ServiceProcess) -> None:
    """As TRL calls it: reset with a row's columns, its other public methods given as tools."""
    from transformers.utils import get_json_schema  # how TRL describes a tool to the model

    game = TextGame(server.url, "alfworld", max_steps=50)
    tools = [name for name in vars(TextGame) if not name.startswith("_") and name not in ("reset", "get_reward")]
    assert tools == ["act"]
    assert list(get_json_schema(game.act)["function"]["parameters"]["properties"]) == ["command"]

    task = {"environment": "alfworld", "split": "train", "seed": 3, "options": EXPERT}
    (session,) = rest(server, "/v1/sessions", task)["sessions"]
    said = game.reset(prompt=[{"role": "user", "content": "Do the task."}], seed=3)
    while not session.get("terminated"):
        action = session["info"]["expert_action"]
        assert said.startswith(session["observation"])
        assert action in said
        assert game.get_reward() == 0.0
        said = game.act(action)
        step = {"action": action, "step_index": session["step_index"]}
        session = rest(server, f"/v1/sessions/{session['session_id']}/step", step)
    assert game.get_reward() == 1.0
    with pytest.raises(ValueError, match="over"):
        game.act("look")
    assert game.reset(seed=4) != said
    assert game.get_reward() == 0.0
    game._client.close()


def test_a_token_opens_it_and_nothing_else_does() -> None:
    token = "a-token-of-environments"
    with start_env_server(GAGPO_TOKEN_ENVIRONMENTS=token, GAGPO_ENV_WORKERS="1", **_maze()) as service:
        base = f"{service.url}/openenv/maze"
        with pytest.raises(ConnectionError, match="401"):
            GenericEnvClient(base_url=base).sync().reset()
        with GenericEnvClient(base_url=base, headers={"Authorization": f"Bearer {token}"}).sync() as playing:
            assert playing.reset(task_id="maze-9").observation["task_id"] == "maze-9"
        assert httpx.get(f"{base}/health").status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{base}/health", headers=headers).json() == {"status": "healthy"}


def _maze() -> dict[str, str]:
    return {name: value for name, value in MAZE.items() if name != "GAGPO_ENV_WORKERS"}
