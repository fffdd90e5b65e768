"""`gagpo play` against real env servers, typing what a person would."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gagpo.cli import app
from gagpo.environment_client import EnvironmentClient
from shared.schemas.environment import SessionRequest
from tests.processes import REPOSITORY, start_env_server


def _play(url: str, typed: list[str], *arguments: str) -> str:
    command = [sys.executable, "-m", "gagpo", "play", *arguments, "--server", url]
    done = subprocess.run(
        command, input="\n".join(typed) + "\n", cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _experts_actions(url: str, task_id: str) -> list[tuple[str, list[str]]]:
    """The expert's actions, each with the clickables of the page it is taken on."""
    with EnvironmentClient(url) as client:
        request = SessionRequest(environment="webshop", task_id=task_id, options={"expert": True})
        now = client.open(request)[0]
        taken = []
        while (action := now.info["expert_action"]) is not None:
            clickables = now.info["clickables"]
            assert isinstance(action, str)
            assert isinstance(clickables, list)
            taken.append((action, [str(text) for text in clickables]))
            now = client.step(now.session_id, action, now.step_index)
        return taken


@pytest.mark.timeout(200)
def test_webshop_is_won_with_numbers_and_words() -> None:
    with start_env_server(GAGPO_ENV_SERVE='["webshop"]', GAGPO_ENV_WORKERS="1") as server:
        taken = _experts_actions(server.url, "synthetic-7")
        typed = ["?", "hint"]
        for action, clickables in taken:
            name, _, argument = action.rstrip("]").partition("[")
            typed.append(f"search {argument}" if name == "search" else str(clickables.index(argument) + 1))
        said = _play(server.url, typed, "webshop", "--task-id", "synthetic-7")
    assert f"The expert would: {taken[0][0]}" in said
    assert "Wanted: " in said
    assert f"Solved in {len(taken)} steps; the expert needs {len(taken)}." in said
    assert "score 1.000" in said


def test_an_unknown_environment_is_told_before_anything_is_started(tmp_path: Path) -> None:
    variables = {"GAGPO_ENV_ENVIRONMENTS": '{"maze": "tests.environments.maze:MazeFamily"}', "TMPDIR": str(tmp_path)}
    for name in ("mazes", "Alfworld"):
        result = CliRunner().invoke(app, ["play", name], env={**variables, "COLUMNS": "300"})
        assert result.exit_code == 1
        assert f"environment = {name!r}: there is alfworld, maze, webshop." in result.stderr
        assert len(result.stderr.splitlines()) == 1
    wrong = CliRunner().invoke(app, ["play", "maze"], env={"GAGPO_ENV_ENVIRONMENTS": "maze"})
    assert (wrong.exit_code, wrong.stderr.partition(":")[0]) == (1, "GAGPO_ENV_ENVIRONMENTS")
    assert list(tmp_path.iterdir()) == []


def test_an_environment_of_plain_text_is_played_as_it_is_and_needs_no_expert() -> None:
    with start_env_server() as server:
        said = _play(server.url, ["?", "take coin", "quit"], "maze", "--task-id", "maze-3")
        assert "north\nsouth\n" in said
        assert "Nothing happens." in said
        missing = subprocess.run(
            [sys.executable, "-m", "gagpo", "play", "mazes", "--server", server.url],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert missing.returncode == 1
    assert "the env server has maze" in missing.stderr
