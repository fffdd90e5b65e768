"""The game generator: determinism, splits, difficulty, and that every game can be won as its walkthrough says."""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from services.env_server.environments.alfworld.engine import NativeEpisode
from services.env_server.environments.alfworld.game import compile_game
from services.env_server.environments.alfworld.generator.facts import load_facts, look_alikes
from services.env_server.environments.alfworld.generator.furnish import Room
from services.env_server.environments.alfworld.generator.problem import write_problem
from services.env_server.environments.alfworld.generator.spec import (
    DIFFICULTIES,
    ROOMS,
    TASK_TYPES,
    UNSEEN_FLOOR_PLANS,
    GeneratorSpec,
    make_spec,
)
from services.env_server.environments.alfworld.generator.walkthrough import solve
from services.env_server.environments.alfworld.generator.wording import human_goals
from services.env_server.environments.alfworld.generator.write import generate_dataset, generate_rooms
from services.env_server.environments.alfworld.official_layout import OfficialLayout
from services.env_server.environments.base import EnvironmentDataError

SMALL = make_spec(24, seed=3, difficulty="easy")


def rooms_of(spec: GeneratorSpec) -> dict[str, list[Room]]:
    rooms: dict[str, list[Room]] = defaultdict(list)
    for split, _, room in generate_rooms(spec):
        rooms[split].append(room)
    return rooms


def folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_bytes_in_another_process_with_another_hash_seed(tmp_path: Path) -> None:
    generate_dataset(SMALL, tmp_path / "here")
    command = [sys.executable, "-m", "services.env_server.environments.alfworld", "generate", "--tasks", "24"]
    command += ["--seed", "3", "--difficulty", "easy", "--out", str(tmp_path / "there")]
    environment = {"PYTHONHASHSEED": "7", "GAGPO_CACHE": str(tmp_path / "cache"), "PATH": ""}
    subprocess.run(command, check=True, env=environment, capture_output=True, cwd=Path(__file__).parents[2])
    assert folder_digest(tmp_path / "here") == folder_digest(tmp_path / "there")


def test_the_bytes_are_those_of_every_other_machine(tmp_path: Path) -> None:
    # Recorded once. A change here means that the same seed now gives other games: raise GENERATOR_VERSION with it.
    generate_dataset(SMALL, tmp_path / "games")
    assert folder_digest(tmp_path / "games") == "6972e32a538696da860da507bde9de1c867df3d68a0495801c47f16c309a16f4"


def test_another_seed_gives_other_games() -> None:
    one, two = (
        {room.fingerprint for _, _, room in generate_rooms(make_spec(30, seed, valid_seen=0, valid_unseen=0))}
        for seed in (1, 2)
    )
    assert len(one) == len(two) == 30
    assert not one & two


def test_no_game_of_one_split_is_in_another_and_unseen_rooms_are_never_trained_in() -> None:
    rooms = rooms_of(make_spec(300, seed=5, difficulty="easy", valid_seen=60, valid_unseen=60))
    fingerprints = [room.fingerprint for split in rooms.values() for room in split]
    assert len(set(fingerprints)) == len(fingerprints) == 420
    plans = {split: {room.plan.number for room in games} for split, games in rooms.items()}
    assert plans["valid_unseen"] == set(UNSEEN_FLOOR_PLANS)
    assert not plans["train"] & plans["valid_unseen"]
    assert not plans["valid_seen"] & plans["valid_unseen"]
    assert len(plans["train"]) > 60


def test_all_six_task_types_are_equally_frequent() -> None:
    for games in rooms_of(make_spec(60, seed=1, valid_seen=12, valid_unseen=12)).values():
        counts = Counter(room.goal.task_type for room in games)
        assert set(counts) == set(TASK_TYPES)
        assert len(set(counts.values())) == 1


def test_difficulties_differ_in_size_as_they_say() -> None:
    mean_receptacles = []
    for name, difficulty in DIFFICULTIES.items():
        games = rooms_of(make_spec(120, seed=2, difficulty=name))["train"]
        for room in games:
            objects = sum(thing.kind != "DeskLamp" for thing in room.things)
            assert objects <= difficulty.objects.high
            if difficulty.receptacles:
                assert len(room.receptacles) <= difficulty.receptacles.high
            else:
                assert room.receptacles == room.plan.receptacles
        mean_receptacles.append(sum(len(room.receptacles) for room in games) / len(games))
    assert mean_receptacles == sorted(mean_receptacles)
    assert 6 <= mean_receptacles[0] <= 9


def test_easy_games_take_five_to_six_and_a_half_commands_on_average() -> None:
    lengths = [len(solve(room)) for room in rooms_of(make_spec(300, seed=4, difficulty="easy"))["train"]]
    assert 5 <= sum(lengths) / len(lengths) <= 6.5


def test_no_goal_is_reached_before_the_first_command_and_every_placement_is_allowed() -> None:
    facts = load_facts()
    for difficulty in DIFFICULTIES:
        for _, _, room in generate_rooms(make_spec(150, seed=6, difficulty=difficulty)):
            goal = room.goal
            wanted = [thing for thing in room.things if thing.kind == goal.thing]
            assert len(wanted) >= goal.wanted
            if goal.ends_with_placing:
                assert not any(thing.receptacle.kind == goal.target for thing in wanted)
            for thing in room.things:
                assert thing.receptacle in room.receptacles
                assert thing.kind == "DeskLamp" or thing.kind in facts.holds[thing.receptacle.kind]
            assert len({thing.id for thing in room.things}) == len(room.things)


def test_distractors_are_look_alikes_of_what_is_wanted() -> None:
    spec = make_spec(60, seed=1, difficulty="easy", distractors="3", rooms=("kitchen",), task_types=(TASK_TYPES[3],))
    for room in rooms_of(spec)["train"]:
        alike = [thing for thing in room.things if thing.kind in look_alikes(room.goal.thing)]
        assert len(alike) >= 3


def test_walkthroughs_keep_to_the_rules_of_the_room() -> None:
    """An independent, literal check of preconditions; the engines check the same in other tests."""
    for difficulty in DIFFICULTIES:
        for _, _, room in generate_rooms(make_spec(120, seed=8, difficulty=difficulty)):
            assert_walkthrough_is_legal(room)


def assert_walkthrough_is_legal(room: Room) -> None:
    from services.env_server.environments.alfworld.generator.walkthrough import instance_names

    ids = {name: id_ for id_, name in instance_names(room).items()}
    receptacles = {receptacle.id: receptacle for receptacle in room.receptacles}
    where = {thing.id: thing.receptacle.id for thing in room.things}
    location, held, opened = room.plan.start, "", set()
    for command in solve(room):
        if match := re.fullmatch(r"go to (.+)", command):
            location = receptacles[ids[match[1]]].location
        elif match := re.fullmatch(r"open (.+)", command):
            receptacle = receptacles[ids[match[1]]]
            assert receptacle.openable and receptacle.location == location and receptacle.id not in opened
            opened.add(receptacle.id)
        elif match := re.fullmatch(r"take (.+) from (.+)", command):
            receptacle = receptacles[ids[match[2]]]
            assert not held and where.pop(ids[match[1]]) == receptacle.id and receptacle.location == location
            assert not receptacle.openable or receptacle.id in opened
            held = ids[match[1]]
        elif match := re.fullmatch(r"move (.+) to (.+)", command):
            receptacle = receptacles[ids[match[2]]]
            assert held == ids[match[1]] and receptacle.location == location
            assert not receptacle.openable or receptacle.id in opened
            where[held], held = receptacle.id, ""
        elif match := re.fullmatch(r"(clean|heat|cool) (.+) with (.+)", command):
            assert held == ids[match[2]] and receptacles[ids[match[3]]].location == location
        else:
            match = re.fullmatch(r"use (.+)", command)
            assert match and receptacles[where[ids[match[1]]]].location == location
    if not room.goal.needs_lamp:
        assert Counter(where.values())[ids[match[2]]] >= room.goal.wanted


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_every_game_is_won_in_the_native_engine_by_its_walkthrough(difficulty: str, tmp_path: Path) -> None:
    generate_dataset(make_spec(45, seed=10, difficulty=difficulty), tmp_path / "games")
    for path in sorted((tmp_path / "games").glob("json_2.1.1/*/*/*/game.tw-pddl")):
        source = OfficialLayout(path.parents[3], "generated").load(path.parents[2].name, "/".join(path.parts[-3:-1]))
        episode = NativeEpisode(compile_game(source))
        turn = episode.reset()
        for command in source.walkthrough:
            assert not turn.won
            assert command in turn.admissible, f"{source.task_id}: {command}"
            turn = episode.step(command)
        assert turn.won, source.task_id


def test_every_name_in_a_problem_is_declared() -> None:
    for _, _, room in generate_rooms(make_spec(30, seed=9)):
        text = write_problem(room, "plan_x")
        declared = set(re.findall(r"^ +(\S+) - \w+$", text, re.MULTILINE))
        init = text[text.index("(:init") : text.index("(:goal")]
        used = {word for fact in re.findall(r"\((\w+(?: \S+)+)\)", init) for word in fact.split()[1:]}
        assert used <= declared
        assert text.count("(") == text.count(")")


def test_human_goals_are_three_different_sentences_about_the_goal() -> None:
    import random

    for _, _, room in generate_rooms(make_spec(60, seed=1)):
        sentences = human_goals(room.goal, random.Random(1))
        assert len(set(sentences)) == 3
        assert all("{" not in sentence and sentence.endswith(".") for sentence in sentences)
        assert len(human_goals(room.goal, random.Random(2))) == 3


def test_the_official_layout_is_written_with_its_manifest(tmp_path: Path) -> None:
    out = tmp_path / "games"
    generate_dataset(SMALL, out)
    manifest = json.loads((out / "generated.json").read_text("utf-8"))
    assert manifest["seed"] == 3
    assert manifest["difficulty"] == "easy"
    assert manifest["splits"] == {"train": 24, "valid_seen": 12, "valid_unseen": 12}
    games = sorted(out.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    assert len(games) == 24
    game = json.loads(games[0].read_text("utf-8"))
    assert set(game) == {"pddl_domain", "grammar", "pddl_problem", "walkthrough", "solvable"}
    assert "UNKNOWN GOAL" not in game["grammar"]
    trajectory = json.loads((games[0].parent / "traj_data.json").read_text("utf-8"))
    assert games[0].parent.parent.name.startswith(trajectory["task_type"])
    assert len(trajectory["turk_annotations"]["anns"]) == 3
    assert not list(tmp_path.glob(".*partial*"))


def test_generating_again_is_harmless_and_other_data_is_never_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "games"
    generate_dataset(SMALL, out)
    before = folder_digest(out)
    generate_dataset(SMALL, out)
    with pytest.raises(EnvironmentDataError, match="holds other data"):
        generate_dataset(make_spec(24, seed=4, difficulty="easy"), out)
    assert folder_digest(out) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"difficulty": "brutal"}, "unknown 'brutal'; there are easy, medium, hard"),
        ({"objects": "9-3"}, "objects: '9-3' is not a number or a range"),
        ({"receptacles": "many"}, "receptacles: 'many'"),
        ({"task_types": ("fly",)}, "task types: unknown fly; there are pick_and_place_simple"),
        ({"rooms": ("cellar",)}, "rooms: unknown cellar; there are kitchen"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(EnvironmentDataError, match=re.escape(message)):
        make_spec(10, seed=1, **options)  # type: ignore[arg-type]


def test_a_task_type_that_the_rooms_cannot_offer_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    spec = make_spec(6, seed=1, rooms=("bathroom",), task_types=("pick_heat_then_place_in_recep",))
    with pytest.raises(EnvironmentDataError, match="leave out that task type or add rooms"):
        generate_dataset(spec, tmp_path / "games")
    assert not list(tmp_path.iterdir())


def test_every_floor_plan_that_the_package_ships_can_be_furnished() -> None:
    from services.env_server.environments.alfworld.generator.floor_plans import floor_plan

    for room, numbers in ROOMS.items():
        for number in numbers:
            plan = floor_plan(number)
            assert plan.room == room
            assert plan.receptacles and plan.things
            assert plan.start not in {receptacle.location for receptacle in plan.receptacles}
