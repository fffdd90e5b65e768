"""`gymnasium.make("gagpo/…")` against a real env server with ALFWorld, WebShop and the tests' maze."""

import subprocess
import sys
from collections.abc import Iterator

import gymnasium
import httpx
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import gagpo.envs
from gagpo.environment_client import EnvironmentClient, EnvironmentServerError
from gagpo.envs import TextEnv
from gagpo.ports import free_port
from shared.schemas.environment import SessionRequest
from tests.cutting_proxy import cutting_proxy
from tests.processes import REPOSITORY, start_env_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_env_server(GAGPO_ENV_SERVE='["maze", "alfworld", "webshop"]') as server:
        yield server.url


@pytest.fixture
def maze(url: str) -> Iterator[TextEnv]:
    env = TextEnv("maze", url)
    yield env
    env.close()


def counted(url: str, metric: str) -> float:
    """A counter of the server, over all labels."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(metric))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["gagpo/ALFWorld-v0", "gagpo/WebShop-v0"])
def test_gymnasiums_checker_finds_nothing(url: str, name: str) -> None:
    env = gymnasium.make(name, url=url)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize(
    "program",
    [
        "import gymnasium, gagpo.envs; print(sorted(id for id in gymnasium.registry if id.startswith('gagpo/')))",
        "import gymnasium as g\ntry: g.make('gagpo.envs:gagpo/ALFWorld-v0')\nexcept ValueError: print(*g.registry)",
    ],
)
def test_an_import_registers_them_and_needs_no_service(program: str) -> None:
    program += "\nimport sys; assert not {'torch', 'services'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert "gagpo/ALFWorld-v0" in done.stdout


def test_the_expert_wins_a_game(url: str) -> None:
    with gymnasium.make("gagpo/ALFWorld-v0", url=url, options={"expert": True}, render_mode="ansi") as env:
        _, info = env.reset(seed=3)
        assert {"admissible_actions", "task_id", "won", "task_type", "state_key", "step_index"} <= info.keys()
        total, terminated = 0.0, False
        while not terminated:
            action = info["expert_action"]
            observation, reward, terminated, truncated, info = env.step(action)
            assert env.render() == f"> {action}\n{observation}"
            total += float(reward)
        assert (total, info["won"], truncated) == (1.0, True, False)


def test_a_purchase_has_a_score(url: str) -> None:
    with gymnasium.make("gagpo/WebShop-v0", url=url, options={"expert": True}) as env:
        _, info = env.reset(seed=3)
        while info["expert_action"] is not None:
            _, reward, terminated, _, info = env.step(info["expert_action"])
        assert (terminated, info["score"], reward) == (True, 1.0, 1.0)


def test_a_seed_draws_the_task_that_the_server_draws(url: str, maze: TextEnv) -> None:
    with EnvironmentClient(url) as client:
        there = [
            client.open(SessionRequest(environment="maze", split="train", seed=seed))[0].task_id for seed in range(8)
        ]
    assert [maze.reset(seed=seed)[1]["task_id"] for seed in range(8)] == there
    assert len(set(there)) > 3


def test_the_same_seed_gives_the_same_tasks_ever_after(url: str, maze: TextEnv) -> None:
    other = TextEnv("maze", url)
    drawn = [[env.reset(seed=7)[1]["task_id"]] + [env.reset()[1]["task_id"] for _ in range(8)] for env in (maze, other)]
    other.close()
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 3


def test_options_choose_the_task(maze: TextEnv) -> None:
    assert maze.reset(options={"task_id": "maze-25"})[1]["task_id"] == "maze-25"
    assert maze.reset(options={"split": "valid", "index": 1})[1]["task_id"] == "maze-24"
    drawn = {maze.reset(seed=seed, options={"split": "valid"})[1]["task_id"] for seed in range(12)}
    assert drawn <= {f"maze-{rooms}" for rooms in range(23, 28)}
    assert len(drawn) > 1
    with pytest.raises(ValueError, match=r"options\.splt: a reset knows task_id, split, index"):
        maze.reset(options={"splt": "valid"})
    with pytest.raises(EnvironmentServerError, match="maze-99"):
        maze.reset(options={"task_id": "maze-99"})


def test_the_step_limit_truncates(url: str) -> None:
    with TextEnv("maze", url, max_steps=2) as env:
        env.reset(seed=1)
        assert env.step("south")[2:4] == (False, False)
        assert env.step("south")[2:4] == (False, True)
        with pytest.raises(EnvironmentServerError, match="ended after 2 steps"):
            env.step("south")


def test_an_action_that_is_none_is_refused_and_changes_nothing(maze: TextEnv) -> None:
    with pytest.raises(ResetNeeded):
        maze.step("north")
    maze.reset(seed=1)
    with pytest.raises(ValueError, match="blank"):
        maze.step(" ")
    assert maze.step("fly")[4]["valid_action"] is False
    assert maze.step("north")[4]["step_index"] == 2


def test_answers_that_are_lost_are_asked_for_again_and_no_step_is_taken_twice(url: str) -> None:
    """The proxy lets the description through, then cuts the opening's answer and two steps' after some bytes."""
    before = counted(url, "gagpo_env_steps_total"), counted(url, "gagpo_env_sessions_opened_total")
    with cutting_proxy(url, [1_000_000, 200, 900, 100]) as proxy, TextEnv("maze", proxy.url, patience_s=30) as env:
        _, info = env.reset(options={"task_id": "maze-20"})
        seen = [env.step("north") for _ in range(6)]
        assert [step[4]["step_index"] for step in seen] == [1, 2, 3, 4, 5, 6]
        assert f"Room {info['step_index'] + 6} of 20." in seen[-1][0]
        assert not proxy.cuts
    after = counted(url, "gagpo_env_steps_total"), counted(url, "gagpo_env_sessions_opened_total")
    assert after == (before[0] + 6, before[1] + 1)


def test_sessions_are_deleted_on_reset_and_on_close(url: str) -> None:
    env = TextEnv("maze", url)
    left = []
    for _ in range(2):
        env.reset()
        left.append(env.session_id)
    assert httpx.get(f"{url}/v1/sessions/{left[0]}").status_code == 404
    assert httpx.get(f"{url}/v1/sessions/{left[1]}").status_code == 200
    env.close()
    env.close()
    assert httpx.get(f"{url}/v1/sessions/{left[1]}").status_code == 404


def test_closing_needs_no_server() -> None:
    with start_env_server() as server:
        env = TextEnv("maze", server.url, patience_s=600)
        env.reset()
        server.kill()
        env.close()  # at once, whatever the patience of steps


def test_what_is_wrong_is_said_when_it_is_made(url: str) -> None:
    with pytest.raises(ValueError, match=r"python -m services\.env_server") as no_url:
        gymnasium.make("gagpo/ALFWorld-v0")
    assert 'gagpo.envs.local_server("alfworld")' in str(no_url.value)
    with pytest.raises(EnvironmentServerError, match="Is it running"):
        gymnasium.make("gagpo/ALFWorld-v0", url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(EnvironmentServerError, match=r"environment = 'beach'.* alfworld, maze, webshop"):
        gymnasium.make("gagpo/Text-v0", environment="beach", url=url)
    with pytest.raises(ValueError, match=r"split = 'test': maze has train, valid"):
        TextEnv("maze", url, split="test")


def test_a_server_can_be_had_from_python() -> None:
    variables = {"GAGPO_ENV_ENVIRONMENTS": '{"maze": "tests.environments.maze:MazeFamily"}'}
    with gagpo.envs.local_server("maze", variables=variables) as url, TextEnv("maze", url) as env:
        assert "maze" in env.reset(seed=1)[0]
    with pytest.raises(EnvironmentServerError):
        TextEnv("maze", url)
