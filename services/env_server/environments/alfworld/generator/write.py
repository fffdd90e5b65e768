"""Writes a generated dataset in the official layout, all or nothing.

``DIR/generated.json`` keeps the spec, ``DIR/json_2.1.1/<split>/<task>/<trial>/`` holds ``game.tw-pddl`` and
``traj_data.json``, ``DIR/logic/`` the domain and grammar, as the official download has them.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from services.env_server.environments.alfworld.generator.facts import LAMP
from services.env_server.environments.alfworld.generator.floor_plans import floor_plan
from services.env_server.environments.alfworld.generator.furnish import Room, furnish
from services.env_server.environments.alfworld.generator.goals import Goal, possible_goals
from services.env_server.environments.alfworld.generator.problem import write_problem
from services.env_server.environments.alfworld.generator.spec import ROOMS, SPLITS, UNSEEN_FLOOR_PLANS, GeneratorSpec
from services.env_server.environments.alfworld.generator.walkthrough import solve
from services.env_server.environments.alfworld.generator.wording import human_goals
from services.env_server.environments.alfworld.package_files import grammar_for, read_domain, read_grammar_template
from services.env_server.environments.base import EnvironmentDataError

MANIFEST = "generated.json"
DATA_FOLDER = "json_2.1.1"
MIN_RECEPTACLES = 6
"""Floor plans with less furniture than any official game are left out."""
MAX_ATTEMPTS = 50
"""How often a game that happens to equal an earlier one is drawn again."""


def generate_dataset(spec: GeneratorSpec, out: Path, on_game: Callable[[], object] = lambda: None) -> None:
    """Write the games of ``spec`` under ``out``, which appears only when it is complete.

    Does nothing where ``out`` already holds exactly this spec. Calls ``on_game`` after each game, for a progress bar.
    Raises `EnvironmentDataError` where ``out`` holds something else, or no floor plan allows what is asked for.
    """
    out = out.absolute()
    manifest = json.dumps(spec.to_json(), indent=2) + "\n"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if (out / MANIFEST).is_file() and (out / MANIFEST).read_text("utf-8") == manifest:
            return
        raise EnvironmentDataError(f"{out} is not empty and holds other data: give another --out, or remove it")
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        logic = partial / "logic"
        logic.mkdir(parents=True)
        (logic / "alfred.pddl").write_text(read_domain(), "utf-8")
        (logic / "alfred.twl2").write_text(read_grammar_template(), "utf-8")
        for split in SPLITS:
            (partial / DATA_FOLDER / split).mkdir(parents=True)
        for split, index, room in generate_rooms(spec):
            _write_game(partial / DATA_FOLDER / split, spec, split, index, room)
            on_game()
        (partial / MANIFEST).write_text(manifest, "utf-8")
        if out.exists():
            out.rmdir()
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def generate_rooms(spec: GeneratorSpec) -> Iterator[tuple[str, int, Room]]:
    """Every game of the spec as (split, index within it, room), no two alike."""
    seen: set[tuple[object, ...]] = set()
    for split, size in zip(SPLITS, spec.split_sizes, strict=True):
        plans_for = {task_type: _plans_for(spec, split, task_type) for task_type in spec.task_types if size}
        for index in range(size):
            task_type = spec.task_types[index % len(spec.task_types)]
            plans = plans_for[task_type]
            for attempt in range(MAX_ATTEMPTS):
                rng = random.Random(f"{spec.seed}/{split}/{index}/{attempt}")
                number = rng.choice(plans)
                room = furnish(floor_plan(number), _choose_goal(number, task_type, rng), spec.difficulty, rng)
                if room.fingerprint not in seen:
                    break
            else:
                raise EnvironmentDataError(
                    f"{split}: no new {task_type} game after {len(seen)} games; ask for fewer, or for larger rooms"
                )
            seen.add(room.fingerprint)
            yield split, index, room


def _choose_goal(plan_number: int, task_type: str, rng: random.Random) -> Goal:
    """Things are equally likely, however many places would do for them."""
    goals = possible_goals(plan_number, task_type)
    thing = rng.choice(sorted({goal.thing for goal in goals}))
    return rng.choice([goal for goal in goals if goal.thing == thing])


def _plans_for(spec: GeneratorSpec, split: str, task_type: str) -> list[int]:
    """The floor plans of a split that allow a type of task."""
    unseen = split == "valid_unseen"
    plans = [
        number
        for room in spec.rooms
        for number in ROOMS[room]
        if (number in UNSEEN_FLOOR_PLANS) == unseen
        and len(floor_plan(number).receptacles) >= MIN_RECEPTACLES
        and possible_goals(number, task_type)
    ]
    if not plans:
        raise EnvironmentDataError(
            f"no floor plan of {', '.join(spec.rooms)} in {split} allows {task_type}: "
            "leave out that task type or add rooms"
        )
    return plans


def _write_game(split_folder: Path, spec: GeneratorSpec, split: str, index: int, room: Room) -> None:
    rng = random.Random(f"{spec.seed}/{split}/{index}/words")
    goal = room.goal
    trial = f"trial_G{spec.seed:08d}_{split}_{index:06d}"
    task = f"{goal.task_type}-{goal.thing}-None-{goal.target or LAMP}-{room.plan.number}"
    game = {
        "pddl_domain": read_domain(),
        "grammar": grammar_for(goal.sentence(rng)),
        "pddl_problem": write_problem(room, f"plan_{trial}"),
        "walkthrough": solve(room),
        "solvable": True,
    }
    trajectory = {
        "task_id": trial,
        "task_type": goal.task_type,
        "pddl_params": {
            "object_target": goal.thing,
            "parent_target": goal.target,
            "mrecep_target": "",
            "toggle_target": LAMP if goal.needs_lamp else "",
            "object_sliced": False,
        },
        "scene": {"floor_plan": f"FloorPlan{room.plan.number}", "scene_num": room.plan.number},
        "turk_annotations": {"anns": [{"task_desc": words, "high_descs": []} for words in human_goals(goal, rng)]},
    }
    folder = split_folder / task / trial
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(json.dumps(game), "utf-8")
    (folder / "traj_data.json").write_text(json.dumps(trajectory, indent=1), "utf-8")
