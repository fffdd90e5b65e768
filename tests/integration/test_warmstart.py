"""The warm-up against a real env server with generated ALFWorld games."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from safetensors.numpy import load_file

from services.trainer.small_policy.checkpoint import save_policy
from services.trainer.small_policy.model import Size, build_model
from services.trainer.warmstart_episodes import EnvServer, SlippingExpert, Slips, Teacher, play
from services.trainer.warmstart_fit import rows
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe
from tests.processes import REPOSITORY, start_service

RECIPE = REPOSITORY / "configs" / "alfworld-cpu.toml"


@pytest.fixture(scope="module")
def env_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("games") / "easy"
    generate = ["generate", "--tasks", "12", "--seed", "5", "--difficulty", "easy", "--out", str(data)]
    subprocess.run(
        [sys.executable, "-m", "services.env_server.environments.alfworld", *generate], check=True, cwd=REPOSITORY
    )
    variables = {"ALFWORLD_DATA": str(data), "GAGPO_ENV_SERVE": '["alfworld"]', "GAGPO_ENV_WORKERS": "1"}
    with start_service("services.env_server", variables) as server:
        yield server.url


def run_warmstart(env_url: str, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    small = ["--episodes", "24", "--epochs", "1", "--evaluation-episodes", "4", "--seed", "3"]
    command = [sys.executable, "-m", "services.trainer.warmstart", "--recipe", str(RECIPE), "--env-url", env_url]
    return subprocess.run(
        [*command, "--out", str(out), *small, *options], capture_output=True, text=True, timeout=200, cwd=REPOSITORY
    )


def test_a_warmed_up_policy_is_a_model_folder_with_a_card_and_repeats_with_its_seed(
    env_url: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        result = run_warmstart(env_url, tmp_path / name, "--min-success", "0")
        assert result.returncode == 0, result.stderr
    expected = {"README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert {file.name for file in (tmp_path / "one").iterdir()} >= expected
    digest = httpx.get(env_url + "/v1/environments").json()["environments"][0]["data_digest"]
    assert digest in (tmp_path / "one" / "README.md").read_text()
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert all((one[name] == two[name]).all() for name in one)
    assert [file for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_policy_below_the_threshold_is_not_handed_over(env_url: str, tmp_path: Path) -> None:
    result = run_warmstart(env_url, tmp_path / "weak", "--min-success", "1")
    assert result.returncode == 1
    assert "held-out episodes" in result.stderr
    assert "--min-success" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_experts_win_and_their_episodes_are_one_row_each_in_the_rollouts_own_prompts(
    env_url: str, tmp_path: Path
) -> None:
    recipe = load_recipe(RECIPE)
    save_policy(build_model(Size(hidden=32, feed_forward=32, layers=1, heads=1), 0), tmp_path)
    builder = PromptBuilder(recipe.prompt, PolicyTokenizer(tmp_path))
    with EnvServer(env_url, recipe.environments[0]) as server:
        expert, tasks = SlippingExpert(builder, Teacher(Slips(0.0)), 0), server.tasks("train")
        outcomes = list(play(server, builder, tasks, expert.options, expert))
    assert len(outcomes) == len(tasks) == 12
    assert sum(outcome.won for outcome in outcomes) >= 11  # searching takes longer than the limit now and then
    assert sum(outcome.invalid for outcome in outcomes) == 0
    assert len(rows(expert.episodes())) == len(tasks)
    assert sum(outcome.steps for outcome in outcomes) == sum(len(episode) for episode in expert.episodes())
    unknown = PolicyTokenizer(tmp_path).encode("<unk>")[0]
    assert not any(unknown in sample.prompt for episode in expert.episodes() for sample in episode)
