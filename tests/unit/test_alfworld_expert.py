"""The experts: they win, in as few commands as the games' own walkthroughs, from wherever the policy has strayed."""

import random

import pytest

from services.env_server.environments.alfworld.engine import NativeEpisode
from services.env_server.environments.alfworld.expert import Planner, plan, plan_from_start
from services.env_server.environments.alfworld.game import compile_game
from services.env_server.environments.alfworld.searcher import Guide, Searcher
from services.env_server.environments.alfworld.whereabouts import count_whereabouts, whereabouts
from tests.alfworld_games import dataset


def oracle_steps(task_id: str) -> int:
    """How many commands the oracle needs; fails when it does not win."""
    source = dataset().load(task_id)
    episode = NativeEpisode(compile_game(source))
    commands = plan_from_start(source)
    for command in commands:
        assert episode.step(command).understood, f"{task_id}: {command!r}"
    assert episode.turn.won, f"{task_id}: {commands}"
    assert len(commands) <= len(source.walkthrough), f"{task_id}: {commands}"
    return len(commands)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_the_oracle_wins_every_third_game_no_slower_than_its_walkthrough(split: str) -> None:
    assert all(oracle_steps(task_id) > 0 for task_id in dataset().splits[split][::3])


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_the_oracle_wins_every_game_no_slower_than_its_walkthrough(split: str) -> None:
    assert all(oracle_steps(task_id) > 0 for task_id in dataset().splits[split])


@pytest.mark.parametrize("task_id", [0, 20, 40, 60, 80, 100, 120, 139])
def test_the_oracle_wins_from_any_state_that_random_play_leads_to(task_id: int) -> None:
    game = compile_game(dataset().load(dataset().splits["valid_seen"][task_id]))
    rng, planner = random.Random(task_id), Planner(game)
    for _ in range(10):
        episode = NativeEpisode(game)
        for _ in range(rng.randrange(40)):
            episode.step(rng.choice(list(episode.turn.admissible)))
        stuck = planner.stuck(episode.state)
        for command in plan(game, episode.state):
            episode.step(command)
        assert episode.turn.won or stuck


def play(task_id: str, seed: int, knows_homes: bool = True) -> list[str]:
    """The searching expert's episode, or the wandering one's, up to the literature's limit of 50 steps."""
    game = compile_game(dataset().load(task_id))
    planner = Planner(game)
    guide = Guide(planner, Searcher(planner, seed, knows_homes))
    episode = NativeEpisode(game)
    commands: list[str] = []
    while not episode.turn.won and len(commands) < 50:
        command = guide.action(episode.state)
        assert command is not None
        commands.append(command)
        operator, before = game.view(episode.state).operators[command], episode.state
        episode.step(command)
        guide.follow(operator, before, episode.state)
    assert episode.turn.won, f"{task_id}: {commands}"
    return commands


def test_the_searching_expert_wins_within_fifty_steps() -> None:
    tasks = dataset().splits["valid_unseen"][::2]
    lengths = [len(play(task_id, seed=1)) for task_id in tasks]
    optimal = [len(dataset().load(task_id).walkthrough) for task_id in tasks]
    assert sum(lengths) > 1.15 * sum(optimal), "it plays as if it knew where things are"


def test_the_wandering_expert_gets_there_but_needs_longer_than_the_searching_one() -> None:
    tasks = dataset().splits["valid_unseen"][:20]
    wandering = sum(len(play(task_id, 1, knows_homes=False)) for task_id in tasks)
    assert wandering > 1.15 * sum(len(play(task_id, 1)) for task_id in tasks)


def test_the_searching_expert_only_takes_what_it_has_seen() -> None:
    for task_id in dataset().splits["valid_seen"][:20]:
        game = compile_game(dataset().load(task_id))
        episode = NativeEpisode(game)
        seen = ""
        for command in play(task_id, seed=2):
            if command.startswith("take "):
                thing = command.removeprefix("take ").split(" from ")[0]
                assert f"a {thing}" in seen, f"{task_id}: {command!r} before it was seen"
            seen += episode.step(command).feedback


def test_the_searching_experts_seed_decides_where_it_looks() -> None:
    tasks = dataset().splits["valid_unseen"][:10]
    assert [play(task_id, 0) for task_id in tasks] == [play(task_id, 0) for task_id in tasks]
    assert [play(task_id, 0) for task_id in tasks] != [play(task_id, 1) for task_id in tasks]


def test_the_guide_keeps_its_plan_while_it_is_followed_and_finds_another_when_not() -> None:
    source = dataset().load(next(t for t in dataset().splits["valid_seen"] if t.startswith("pick_two")))
    game = compile_game(source)
    guide, episode = Guide(Planner(game), None), NativeEpisode(game)
    rng = random.Random(5)
    for step in range(60):
        command = guide.action(episode.state)
        if command is None:
            break
        if step in (2, 5, 9):
            command = rng.choice([c for c in episode.turn.admissible if c != command])
        operator, before = game.view(episode.state).operators[command], episode.state
        episode.step(command)
        guide.follow(operator, before, episode.state)
    assert episode.turn.won


@pytest.mark.slow
def test_what_the_searching_expert_knows_about_homes_is_counted_from_the_training_games() -> None:
    counted = count_whereabouts(map(dataset().load, dataset().splits["train"]))
    assert {kind: dict(rates) for kind, rates in whereabouts().items()} == counted
