"""The warm-up against a real env server with a generated shop."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.processes import REPOSITORY, start_service

RECIPE = REPOSITORY / "configs" / "webshop-cpu.toml"


@pytest.mark.slow
def test_the_first_lesson_is_kept_and_not_taught_again(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    generate = ["generate", "--products", "60", "--seed", "5", "--style", "simple", "--out", str(shop)]
    subprocess.run(
        [sys.executable, "-m", "services.env_server.environments.webshop", *generate], check=True, cwd=REPOSITORY
    )
    command = [sys.executable, "-m", "services.trainer.warmstart", "--recipe", str(RECIPE)]
    variables = {"WEBSHOP_DATA": str(shop), "GAGPO_ENV_SERVE": '["webshop"]', "GAGPO_ENV_WORKERS": "1"}
    with start_service("services.env_server", variables) as server:
        for name, haste in (("calm", "0"), ("hasty", "1")):
            small = ["--episodes", "64", "--epochs", "1", "--evaluation-episodes", "4", "--min-success", "0"]
            folders = ["--out", str(tmp_path / name), "--first-lesson", str(tmp_path / "first")]
            done = subprocess.run(
                [*command, "--env-url", server.url, *folders, *small, "--haste", haste],
                capture_output=True,
                text=True,
                timeout=200,
                cwd=REPOSITORY,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    first, calm, hasty = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "calm", "hasty"))
    assert any((first[name] != calm[name]).any() for name in first)
    assert any((calm[name] != hasty[name]).any() for name in first)
    card = (tmp_path / "hasty" / "README.md").read_text()
    assert "plays WebShop" in card
    assert json.dumps({"expert_haste": 1.0})[1:-1] in card
