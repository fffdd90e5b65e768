"""Plays each ``game.tw-pddl`` given as an argument in stock TextWorld by its walkthrough; prints a JSON line a game.

A program of its own: TextWorld's PDDL translator overwrites ``sys.argv`` and its parser keeps global state.
"""

import json
import sys
from pathlib import Path

import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from textworld.envs import PddlEnv


def play(path: Path) -> dict[str, object]:
    """What stock TextWorld says while the walkthrough is played."""
    env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True, feedback=True)), shuffle=False)
    env.load(str(path))
    state = env.reset()
    walkthrough = json.loads(path.read_text("utf-8"))["walkthrough"]
    intro = state["feedback"]
    inadmissible, won_after = [], [state["won"]]
    for command in walkthrough:
        if command not in state["admissible_commands"]:
            inadmissible.append(command)
        state, _, _ = env.step(command)
        won_after.append(state["won"])
    return {"intro": intro, "inadmissible": inadmissible, "won_after": won_after}


if __name__ == "__main__":
    for argument in list(sys.argv[1:]):
        print(json.dumps(play(Path(argument))), flush=True)
