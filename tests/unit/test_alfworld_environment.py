"""ALFWorld as an environment: options, info, state keys, clones."""

import random

import pytest

from services.env_server.environments.alfworld.environment import AlfworldEnvironment, AlfworldFamily
from services.env_server.environments.base import (
    EnvironmentDataError,
    InvalidOptionError,
    UnknownSplitError,
    UnknownTaskError,
)
from shared.schemas.environment import StateKeyKind
from tests.alfworld_games import dataset


@pytest.fixture(scope="module")
def family() -> AlfworldFamily:
    return AlfworldFamily(dataset())


def opened(family: AlfworldFamily, number: int = 0, **options: str | int | bool) -> AlfworldEnvironment:
    environment = family.open(family.tasks("valid_seen")[number], options)
    environment.reset()
    return environment


def keys(environment: AlfworldEnvironment) -> dict[StateKeyKind, str]:
    return {kind: environment.state_key(kind) for kind in StateKeyKind}


def test_the_description_says_what_there_is(family: AlfworldFamily) -> None:
    description = family.describe()
    assert description.splits == {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
    assert description.max_steps == 50
    assert {option.name for option in description.options} >= {"goal_style", "engine", "expert", "expert_style"}
    assert len(description.data_digest) == 64


def test_unknown_splits_tasks_and_options_are_named_in_the_error(family: AlfworldFamily) -> None:
    task_id = family.tasks("valid_seen")[0]
    with pytest.raises(UnknownSplitError, match="nosuch"):
        family.tasks("nosuch")
    with pytest.raises(UnknownTaskError, match="nosuch"):
        family.open("nosuch", {})
    for options, name in (
        ({"engine": "fast"}, "engine"),
        ({"expert": 1}, "expert"),
        ({"expert_seed": -1}, "expert_seed"),
        ({"goal_style": None}, "goal_style"),
        ({"colour": "red"}, "colour"),
        ({"goal_style": "human", "human_goal": 99}, "human_goal"),
    ):
        with pytest.raises(InvalidOptionError, match=name) as raised:
            family.open(task_id, options)  # type: ignore[arg-type]
        assert raised.value.option == name


def test_the_engine_of_the_settings_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGPO_ALFWORLD_ENGINE", "textworld")
    engine = next(x for x in AlfworldFamily(dataset()).describe().options if x.name == "engine")
    assert engine.default == "textworld"
    monkeypatch.setenv("GAGPO_ALFWORLD_ENGINE", "nosuch")
    with pytest.raises(EnvironmentDataError, match="GAGPO_ALFWORLD_ENGINE = 'nosuch'"):
        AlfworldFamily(dataset())


def test_a_human_goal_replaces_the_templated_one(family: AlfworldFamily) -> None:
    task_id = family.tasks("valid_seen")[0]
    source = dataset().load(task_id)
    for index, goal in enumerate(source.human_goals):
        first = family.open(task_id, {"goal_style": "human", "human_goal": index}).reset()
        assert first.info["goal"] == goal
        assert first.text.endswith(f"Your task is to: {goal}.")
    templated = family.open(task_id, {}).reset()
    assert templated.text.endswith(f"Your task is to: {source.goal}.")


def test_following_the_expert_wins_in_the_promised_number_of_steps(family: AlfworldFamily) -> None:
    for number in range(0, 140, 10):
        environment = family.open(family.tasks("valid_seen")[number], {"expert": True})
        seen = environment.reset()
        steps = 0
        while (action := seen.info["expert_action"]) is not None:
            outcome = environment.step(str(action))
            seen, steps = outcome.observation, steps + 1
        assert (outcome.terminated, outcome.reward, seen.info["won"]) == (True, 1.0, True)
        walkthrough = dataset().load(family.tasks("valid_seen")[number]).walkthrough
        assert steps == seen.info["optimal_steps"] == len(walkthrough)


def test_without_expert_the_info_does_not_give_it_away(family: AlfworldFamily) -> None:
    assert set(family.open(family.tasks("valid_seen")[0], {}).reset().info) == {"won", "task_type", "goal"}


def test_an_action_that_makes_no_sense_is_a_step_that_changes_nothing(family: AlfworldFamily) -> None:
    environment = opened(family)
    before = environment.state_key(StateKeyKind.SIMULATOR)
    for nonsense in ("fly to the moon", "", "\0", "\ud800", "take " * 2000):
        outcome = environment.step(nonsense)
        assert (outcome.valid_action, outcome.observation.text, outcome.reward) == (False, "Nothing happens.", 0.0)
        assert environment.state_key(StateKeyKind.SIMULATOR) == before


def test_a_clone_goes_its_own_way(family: AlfworldFamily) -> None:
    environment = opened(family, expert=True, expert_style="searching")
    rng = random.Random(1)
    admissible = environment.reset().admissible_actions
    for _ in range(8):
        admissible = environment.step(rng.choice(list(admissible))).observation.admissible_actions
    before = keys(environment)
    twin, other = environment.clone(), environment.clone()
    assert keys(twin) == before
    action = next(command for command in admissible if command.startswith("go to"))
    told = twin.step(action)
    assert keys(environment) == before
    assert keys(twin) != before
    assert other.step(action) == told
    assert keys(other) == keys(twin)
    assert environment.step(action) == told


def test_reset_leads_back_to_the_start_exactly(family: AlfworldFamily) -> None:
    environment = opened(family, expert=True)
    first, start = environment.reset(), keys(environment)
    rng = random.Random(2)
    admissible = first.admissible_actions
    for _ in range(20):
        admissible = environment.step(rng.choice(list(admissible))).observation.admissible_actions
    assert environment.reset() == first
    assert keys(environment) == start


def test_keys_are_the_same_in_another_process(family: AlfworldFamily) -> None:
    other = AlfworldFamily(dataset())
    assert keys(opened(family, 5)) == keys(opened(other, 5))


def test_the_observation_key_is_equal_exactly_when_the_text_is(family: AlfworldFamily) -> None:
    environment = opened(family)
    texts: dict[str, str] = {}
    rng = random.Random(3)
    admissible = environment.reset().admissible_actions
    for _ in range(300):
        observation = environment.step(rng.choice(list(admissible))).observation
        admissible = observation.admissible_actions
        key = environment.state_key(StateKeyKind.OBSERVATION)
        assert texts.setdefault(key, observation.text) == observation.text
    assert len(set(texts.values())) == len(texts)


def test_the_simulator_key_tells_apart_what_the_text_hides_and_ignores_looking(family: AlfworldFamily) -> None:
    environment = opened(family, expert=True)
    seen = environment.reset()
    while not str(seen.info["expert_action"]).startswith("take "):
        seen = environment.step(str(seen.info["expert_action"])).observation
    holding = environment.clone()
    holding.step(str(seen.info["expert_action"]))
    away = next(command for command in holding._episode.turn.admissible if command.startswith("go to"))
    texts = {environment.step(away).observation.text, holding.step(away).observation.text}
    assert len(texts) == 1
    empty, full = keys(environment), keys(holding)
    assert empty[StateKeyKind.OBSERVATION] == full[StateKeyKind.OBSERVATION]
    for kind in (StateKeyKind.OBSERVATION_INVENTORY, StateKeyKind.SIMULATOR, StateKeyKind.HISTORY):
        assert empty[kind] != full[kind]
    for command in ("look", "inventory", "help", "nonsense"):
        holding.step(command)
        assert holding.state_key(StateKeyKind.SIMULATOR) == full[StateKeyKind.SIMULATOR]
        assert holding.state_key(StateKeyKind.HISTORY) != full[StateKeyKind.HISTORY]


def test_the_simulator_key_is_equal_on_two_ways_to_one_state(family: AlfworldFamily) -> None:
    environment = opened(family)
    first, second = [c for c in environment.reset().admissible_actions if c.startswith("go to")][:2]
    direct = environment.clone()
    direct.step(second)
    environment.step(first)
    environment.step(second)
    assert environment.state_key(StateKeyKind.SIMULATOR) == direct.state_key(StateKeyKind.SIMULATOR)
    assert environment.state_key(StateKeyKind.HISTORY) != direct.state_key(StateKeyKind.HISTORY)
