"""A whole training run in which every service has only the tokens that it needs, and tells none of them."""

import json
import re
import time
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gagpo.stack import LocalSystem, SystemSettings
from shared.recipe import load_recipe
from shared.service import Scope, authorization
from tests.processes import MAZE, start_redis
from tests.training_system import RECIPE, write_maze_policy

TOKENS = {scope: f"token-of-{scope}-0123456789" for scope in Scope}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_is_trained_behind_tokens_and_no_log_tells_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAGPO_TOKEN", raising=False)
    monkeypatch.setenv("GAGPO_LOG_LEVEL", "debug")
    for scope, token in TOKENS.items():
        monkeypatch.setenv(scope.variable, token)
    model = write_maze_policy(tmp_path / "model")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(model=model, steps=1, checkpoint_every=1, staleness=0, transport="http"))
    with start_redis() as redis_url:
        settings = SystemSettings("tokens", recipe, load_recipe(recipe), tmp_path / "run", redis_url, environment=MAZE)
        with LocalSystem(settings) as system:
            system.start_servers()
            assert httpx.get(f"{system.policy_url}/v1/weights", timeout=30).status_code == 401
            system.start_training()
            deadline = time.monotonic() + 400
            while (code := system.trainer_exit_code()) is None:
                assert time.monotonic() < deadline
                system.check()
                time.sleep(0.2)
            assert code == 0
            weights = httpx.get(f"{system.policy_url}/v1/weights", headers=authorization(Scope.GENERATE), timeout=30)
            assert weights.json()["version"] == 1
            _check_metrics(httpx.get(f"{system.policy_url}/metrics", timeout=30).text)
    _check_logs(tmp_path / "run" / "logs")


def _check_metrics(text: str) -> None:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    values = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert values["gagpo_policy_weights_version",] == 1
    assert values["gagpo_policy_weight_pushes_total", "loaded", "http"] == 1  # version 0 was there already
    assert values["gagpo_policy_weight_pause_seconds_count",] == 1
    assert sum(sample.value for sample in samples if sample.name == "vllm:generation_tokens_total") > 0


def _check_logs(folder: Path) -> None:
    logs = {file.stem: file.read_text() for file in folder.glob("*.log")}
    assert logs.keys() == {"env-server", "policy-server", "orchestrator", "trainer"}
    for name, text in logs.items():
        for token in TOKENS.values():
            assert token not in text, name
        # Where the weights are fetched is the trainer's secret.
        assert not re.search(r"http://[^/\s]+/[\w-]{16,}/", text), name
        lines = [json.loads(line) for line in text.splitlines() if name != "trainer" or line.startswith("{")]
        assert {line["service"] for line in lines} == {name.replace("-", "_")}
    about = [json.loads(line) for line in logs["trainer"].splitlines() if line.startswith("{")]
    assert any(line.get("job") == "tokens" for line in about)
