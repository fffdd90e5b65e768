"""The examples: played, trained with, and the notebook run on what the training left. No vLLM: see tests/e2e."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.own_environment.hide_and_seek import KEPT_IN
from gagpo.environment_client import EnvironmentClient
from shared.credit_record import read_credit_record
from shared.recipe import CustomSettings, load_recipe
from shared.run_layout import RunFiles
from shared.schemas.environment import SessionRequest, StateKeyKind
from tests.entry_points import write_entry_point
from tests.policy_processes import write_tiny_model
from tests.processes import REPOSITORY, start_service
from tests.training import add_groups, start_trainer, start_weight_endpoint, training_group, write_recipe

pytestmark = pytest.mark.timeout(700)  # a trainer's start takes seconds on a quiet machine, minutes on a busy one

EXAMPLES = REPOSITORY / "examples"
STEPS = 3
START_S = 240.0
"""On a busy machine; ALFWorld's games are generated first, too."""


@pytest.fixture(scope="module")
def env_url() -> Iterator[str]:
    known = {"hide-and-seek": "examples.own_environment.hide_and_seek:HideAndSeekFamily"}
    variables = {"GAGPO_ENV_ENVIRONMENTS": json.dumps(known), "GAGPO_ENV_SERVE": '["hide-and-seek", "alfworld"]'}
    with start_service("services.env_server", variables, START_S) as server:
        yield server.url


@pytest.mark.parametrize("recipe", sorted(EXAMPLES.glob("*/recipe.toml")), ids=lambda file: file.parent.name)
def test_every_recipe_is_valid(recipe: Path) -> None:
    assert load_recipe(recipe).training.steps > 0


def test_the_environment_is_served_and_won_by_who_knows_where_things_are(env_url: str) -> None:
    with EnvironmentClient(env_url) as client:
        things = set()
        for index in range(12):
            request = SessionRequest(
                environment="hide-and-seek", split="train", index=index, state_key=StateKeyKind.SIMULATOR
            )
            now = client.open(request)[0]
            thing = str(now.info["task_type"])
            wrong = next(action for action in now.admissible_actions if KEPT_IN[thing] not in action)
            searched = client.step(now.session_id, wrong, 0)
            assert (searched.reward, searched.terminated, searched.info["valid_action"]) == (0.0, False, True)
            assert client.step(now.session_id, "dance", 1).info["valid_action"] is False
            found = client.step(now.session_id, f"go to {KEPT_IN[thing]} 1", 2)
            assert (found.reward, found.terminated, found.info["won"]) == (1.0, True, True)
            assert len({now.state_key, searched.state_key, found.state_key}) == 3
            things.add(thing)
    assert len(things) > 2


def test_the_agent_plays_over_the_openai_api(env_url: str) -> None:
    with start_service("tests.openai_server", {}) as model:
        command = [sys.executable, str(EXAMPLES / "openai_agent" / "play.py"), "--model", "words", "--server", env_url]
        command += ["--environment", "alfworld", "--episodes", "3", "--max-steps", "4"]
        variables = {**os.environ, "OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "secret"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        asked = httpx.get(f"{model.url}/requests").json()
    assert done.stdout.splitlines()[-1] == "won 0 of 3"
    assert done.stdout.count("lost in 4 steps") == 3
    assert len(asked) == 12
    assert asked[0]["authorization"] == "Bearer secret"
    assert [message["role"] for message in asked[1]["messages"]] == ["system", "user", "assistant", "user"]
    first = asked[0]["messages"][1]["content"]
    assert "Your task is to" in first and re.search(r"Actions: (.+, )?go to \w+ 1", first), first


@pytest.fixture(scope="module")
def trained(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a trainer whose estimator is the example's, found by an entry point as a package registers it."""
    folder = tmp_path_factory.mktemp("trained")
    write_tiny_model(folder / "model")
    example = "examples.own_estimator.time_baseline:TimeBaseline"
    write_entry_point(folder / "site", "gagpo.algorithms", "time-baseline", example)
    algorithm = ('algorithm.name = "custom"', 'algorithm.estimator = "time-baseline"', "algorithm.options.gamma = 0.5")
    recipe = write_recipe(folder, *algorithm, steps=STEPS)
    assert isinstance(load_recipe(recipe).algorithm, CustomSettings)
    add_groups(redis_url, "example", [training_group(s, g) for s in range(STEPS) for g in range(4)])
    with pytest.MonkeyPatch.context() as patch, start_weight_endpoint() as endpoint:
        patch.setenv("PYTHONPATH", str(folder / "site"))
        with start_trainer("example", recipe, folder / "run", redis_url, endpoint.url) as trainer:
            assert trainer.wait(600) == 0, trainer.log.read_text()
        assert [version for version, _ in endpoint.history] == list(range(STEPS + 1))
    return folder / "run"


def test_the_trainer_uses_the_estimator_of_the_example(trained: Path) -> None:
    record = read_credit_record(RunFiles(trained).credit_record(STEPS - 1))
    assert record.algorithm == "custom"
    for one in record.groups:
        lengths = [len(episode.steps) for episode in one.group.episodes]
        first = [sum(lengths[:place]) for place in range(len(lengths))]
        credit = one.credit
        assert credit.values[first] == pytest.approx(credit.returns[first].mean()), "all begin at the same time"
        last = max(range(len(lengths)), key=lambda place: lengths[place])
        if lengths.count(lengths[last]) == 1:
            assert credit.raw[first[last] + lengths[last] - 1] == 0.0, "nobody else was there so late"


def test_the_notebook_reads_a_run(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGPO_RUN", str(trained))
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((EXAMPLES / "analyse_run.ipynb").read_text())
    seen: dict[str, Any] = {}
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "kept without outputs, so that a change shows what was changed"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), seen)
    groups = read_credit_record(RunFiles(trained).credit_record(STEPS - 1)).groups
    assert len(seen["steps"]) == sum(len(one.credit) for one in groups)
    assert seen["groups"]["episodes"].tolist() == [4] * 4
    assert seen["course"].index.tolist() == list(range(STEPS))
    assert seen["course"]["trained_on"].gt(0).all()
    assert seen["metrics"].index.tolist() == list(range(STEPS))
