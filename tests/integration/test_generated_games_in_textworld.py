"""Generated games are true ALFWorld games: stock TextWorld loads them, and their walkthroughs win there."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.env_server.environments.alfworld.dataset import open_dataset
from services.env_server.environments.alfworld.generator.spec import TASK_TYPES, make_spec
from services.env_server.environments.alfworld.generator.write import generate_dataset

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("textworld") is None, reason="stock TextWorld is not installed (pip install gagpo[env])"
)


@pytest.mark.parametrize("difficulty", ["easy", "hard"])
def test_a_game_of_each_type_loads_and_is_won_in_stock_textworld(difficulty: str, tmp_path: Path) -> None:
    play_all(tmp_path, difficulty, games=len(TASK_TYPES))


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_many_games_load_and_are_won_in_stock_textworld(difficulty: str, tmp_path: Path) -> None:
    play_all(tmp_path, difficulty, games=30)


def play_all(folder: Path, difficulty: str, games: int) -> None:
    """Play the train games of a fresh dataset in another process and check what TextWorld said."""
    generate_dataset(make_spec(games, seed=21, difficulty=difficulty, valid_seen=0, valid_unseen=0), folder / "games")
    dataset = open_dataset(folder / "games")
    sources = [dataset.load(task_id) for task_id in dataset.tasks("train")]
    assert {source.task_type for source in sources} == set(TASK_TYPES)
    files = [str(dataset.root / "train" / source.task_id / "game.tw-pddl") for source in sources]
    result = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("play_in_textworld.py")), *files],
        env=os.environ | {"ALFWORLD_DATA": str(folder / "alfworld")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0
    played = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(played) == games
    for source, said in zip(sources, played, strict=True):
        assert f"Your task is to: {source.goal}." in said["intro"]
        assert said["inadmissible"] == [], source.task_id
        assert said["won_after"] == [False] * len(source.walkthrough) + [True], source.task_id
