"""The native engine against stock TextWorld, live: the same commands, the same answers."""

import pytest

from services.env_server.environments.alfworld.engine import observation
from services.env_server.environments.alfworld.environment import AlfworldFamily
from services.env_server.environments.base import EnvironmentDataError
from shared.schemas.environment import StateKeyKind
from tests.alfworld_differential import compare_engines
from tests.alfworld_games import dataset, old_release_games

pytest.importorskip("textworld", reason="stock TextWorld is not installed (the extra env)")

TASK_TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)

QUICKLY_OPENED = ("look_at_obj_in_light", "pick_two_obj_and_place")
"""Stock takes seconds to open a game; recordings of it with every kind of task are in `test_alfworld_engine.py`."""


def games_of(task_type: str, split: str) -> list[str]:
    """The tasks of one kind."""
    return [task_id for task_id in dataset().splits[split] if task_id.startswith(f"{task_type}-")]


@pytest.mark.parametrize(
    "task_type",
    [one if one in QUICKLY_OPENED else pytest.param(one, marks=pytest.mark.slow) for one in TASK_TYPES],
)
def test_native_and_stock_answer_alike(task_type: str) -> None:
    source = dataset().load(games_of(task_type, "valid_unseen")[0])
    compared = compare_engines(source, steps=15, seed=7)
    assert compared.steps >= 15
    assert compared.nothing_happened > 0
    assert compared.won or compared.stuck


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_native_and_stock_answer_alike_at_length(task_type: str, part: int) -> None:
    """36 games, at least 5,400 steps in all."""
    tasks = games_of(task_type, "train") + games_of(task_type, "valid_seen")
    source = dataset().load(tasks[len(tasks) * part // 6])
    compared = compare_engines(source, steps=150, seed=part)
    assert compared.steps >= 150
    assert compared.won or compared.stuck


def test_a_session_can_be_played_on_either_engine() -> None:
    family = AlfworldFamily(dataset())
    task_id = family.tasks("valid_seen")[0]
    native = family.open(task_id, {"expert": True})
    stock = family.open(task_id, {"engine": "textworld", "expert": True, "goal_style": "templated"})
    first, other = native.reset(), stock.reset()
    assert first.text == other.text
    assert dict(first.info) == dict(other.info)
    start = stock.state_key(StateKeyKind.SIMULATOR)
    moved = stock.step(str(other.info["expert_action"]))
    assert moved.observation.text == native.step(str(first.info["expert_action"])).observation.text
    assert stock.state_key(StateKeyKind.SIMULATOR) != start
    twin = stock.clone()
    assert twin.state_key(StateKeyKind.SIMULATOR) == stock.state_key(StateKeyKind.SIMULATOR)
    assert twin.step("inventory").observation.text == stock.step("inventory").observation.text


@pytest.mark.slow
def test_games_of_the_older_release_play_alike_where_stock_can_play_them() -> None:
    game = old_release_games()[2]
    try:
        compared = compare_engines(game, steps=20, seed=3)
    except EnvironmentDataError as error:
        pytest.skip(f"stock cannot play it here: {error}")
    assert compared.won or compared.stuck


def test_the_human_goal_is_shown_alike_by_both_engines() -> None:
    family = AlfworldFamily(dataset())
    task_id = family.tasks("valid_seen")[3]
    options = {"goal_style": "human", "human_goal": 1}
    native, stock = family.open(task_id, options), family.open(task_id, {**options, "engine": "textworld"})
    assert native.reset().text == stock.reset().text
    assert observation(native.reset().text) == native.reset().text
