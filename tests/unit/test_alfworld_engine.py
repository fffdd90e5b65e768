"""The native engine against recordings of stock TextWorld, and against what the games themselves promise."""

import pytest

from services.env_server.environments.alfworld.engine import NativeEpisode, observation
from services.env_server.environments.alfworld.expert import plan
from services.env_server.environments.alfworld.game import compile_game
from tests.alfworld_games import dataset, json_lines, old_release_games


def test_every_recorded_step_of_stock_is_matched_exactly() -> None:
    steps = 0
    for record in json_lines("oracle_traces.jsonl.xz"):
        episode = NativeEpisode(compile_game(dataset().load(record["id"])))
        for recorded in record["trace"]:
            starts = recorded["cmd"] in (None, "<reset>")
            turn = episode.reset() if starts else episode.step(recorded["cmd"])
            where = f"{record['id']} step {steps}: {recorded['cmd']!r}"
            assert turn.feedback == recorded["obs"], where
            assert list(turn.admissible) == recorded["adm"], where
            assert turn.won == recorded["won"], where
            if not starts:
                assert (turn.reward, turn.done) == (recorded["reward"], recorded["done"]), where
            steps += 1
    assert steps == 781


def wins_by_walkthrough(task_id: str) -> bool:
    source = dataset().load(task_id)
    episode = NativeEpisode(compile_game(source))
    assert source.walkthrough, f"{task_id} has no walkthrough"
    won_before_the_end = False
    for command in source.walkthrough:
        assert not won_before_the_end, f"{task_id} is won before its walkthrough ends"
        assert episode.step(command).understood, f"{task_id}: {command!r} was not understood"
        won_before_the_end = episode.turn.won
    return episode.turn.won


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_every_walkthrough_wins(split: str) -> None:
    lost = [task_id for task_id in dataset().splits[split] if not wins_by_walkthrough(task_id)]
    assert lost == []


@pytest.mark.slow
def test_every_walkthrough_of_the_training_games_wins() -> None:
    tasks = dataset().splits["train"]
    assert len(tasks) == 3553
    assert [task_id for task_id in tasks if not wins_by_walkthrough(task_id)] == []


def test_the_banner_and_outer_white_space_are_no_part_of_an_observation() -> None:
    episode = NativeEpisode(compile_game(dataset().load(dataset().splits["valid_seen"][0])))
    first = observation(episode.turn.feedback)
    assert episode.turn.feedback.startswith("-= Welcome to TextWorld, ALFRED! =-\n\n")
    assert first.startswith("You are in the middle of a room.")
    help_text = episode.step("help").feedback
    assert help_text.endswith("\n")
    assert observation(help_text).startswith("Available commands:\n")
    assert not observation(help_text).endswith("\n")


def test_a_command_is_understood_despite_outer_white_space_and_nothing_else() -> None:
    episode = NativeEpisode(compile_game(dataset().load(dataset().splits["valid_seen"][0])))
    command = episode.turn.admissible[0]
    assert episode.step(f"\n {command}\t").understood
    episode.reset()
    before = episode.turn.admissible
    for wrong in ("", " ", command.upper(), command.replace(" ", "  "), f"{command}!", "go to moon 1"):
        turn = episode.step(wrong)
        assert (turn.feedback, turn.understood, turn.reward, turn.done) == ("Nothing happens.", False, 0.0, False)
        assert turn.admissible == before


def test_play_goes_on_after_the_goal_and_the_reward_follows_the_state() -> None:
    source = dataset().load(next(t for t in dataset().splits["valid_seen"] if t.startswith("look_at_obj")))
    episode = NativeEpisode(compile_game(source))
    for command in source.walkthrough:
        episode.step(command)
    assert (episode.turn.won, episode.turn.reward, episode.turn.done) == (True, 1.0, True)
    away = next(command for command in episode.turn.admissible if command.startswith("go to"))
    assert (episode.step(away).won, episode.turn.reward) == (False, 0.0)


def test_a_thing_taken_elsewhere_lies_next_to_the_receptacle_it_left() -> None:
    """Stock's own quirk: `look` lists what was taken out of one receptacle and put into another at the same place."""
    found = 0
    for record in json_lines("oracle_traces.jsonl.xz"):
        found += sum("Next to it, you see a" in recorded["obs"] for recorded in record["trace"])
    for task_id in dataset().splits["valid_seen"]:
        game = compile_game(dataset().load(task_id))
        here = _two_open_receptacles_at_one_place(game)
        if here is None:
            continue
        episode = NativeEpisode(game)
        episode.step(f"go to {here[0]}")
        take = next((c for c in episode.turn.admissible if c.startswith("take") and c.endswith(here[0])), None)
        if take is None:
            continue
        thing = take.removeprefix("take ").removesuffix(f" from {here[0]}")
        episode.step(take)
        if episode.step(f"move {thing} to {here[1]}").understood:
            assert f"Next to it, you see a {thing}." in episode.step("look").feedback
            found += 1
            break
    assert found > 0


def _two_open_receptacles_at_one_place(game) -> tuple[str, str] | None:  # type: ignore[no-untyped-def]
    openable = {fact[0] for fact in game.table.constant.get("openable", ())}
    at: dict[int, list[int]] = {}
    for receptacle, place in sorted(game.table.constant["receptacleatlocation"]):
        if receptacle not in openable:
            at.setdefault(place, []).append(receptacle)
    pair = next((found for found in at.values() if len(found) > 1), None)
    return None if pair is None else (game.things[pair[0]].name, game.things[pair[1]].name)


@pytest.mark.parametrize("number", range(6))
def test_a_game_of_the_older_release_is_won_in_its_own_words(number: int) -> None:
    source = old_release_games()[number]
    game = compile_game(source)
    episode = NativeEpisode(game)
    assert "help" not in episode.turn.admissible
    commands = plan(game, game.initial)
    said = [episode.step(command).feedback for command in commands]
    assert episode.turn.won
    assert any(text.startswith("You arrive at loc ") for text in said)
    if source.task_type != "look_at_obj_in_light":
        assert " in/on " in commands[-1]
        assert said[-1].startswith("You put the ") and " in/on the " in said[-1]


def test_the_shown_goal_can_be_replaced_and_nothing_else_changes() -> None:
    source = dataset().load(dataset().splits["valid_seen"][0])
    odd = 'Put the "red" thing; then [rest] {here} | #now#'
    plain, replaced = NativeEpisode(compile_game(source)), NativeEpisode(compile_game(source, odd))
    assert replaced.turn.feedback == plain.turn.feedback.replace(source.goal, odd)
    assert replaced.turn.feedback.endswith(f"Your task is to: {odd}.")
    for command in source.walkthrough:
        assert replaced.step(command) == plain.step(command)
