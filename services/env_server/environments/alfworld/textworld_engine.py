"""Stock TextWorld behind the same interface as the native engine: slow, and the reference.

Needs the `alfworld` and `textworld` packages (the extra `env`). Stock has quirks that are kept from leaking out of
here: its PDDL translation overwrites ``sys.argv``, its parser is not thread-safe, and importing alfworld sets
``ALFWORLD_DATA``.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from services.env_server.environments.alfworld.engine import NOTHING_HAPPENS, Turn
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.base import EnvironmentDataError

_STOCK = threading.RLock()
"""Held while stock code runs: its parsers are shared by all games of a process."""


@contextmanager
def _contained() -> Iterator[None]:
    """Run stock code alone, and undo what it does to the process."""
    with _STOCK:
        argv, data = sys.argv, os.environ.get("ALFWORLD_DATA")
        try:
            yield
        finally:
            sys.argv = argv
            if data is None:
                os.environ.pop("ALFWORLD_DATA", None)
            else:
                os.environ["ALFWORLD_DATA"] = data


class TextworldEpisode:
    """An episode on stock TextWorld. Loading takes seconds, and so does every reset."""

    def __init__(self, source: GameSource, goal: str) -> None:
        """``goal`` is shown as the task. Raises `EnvironmentDataError` for a game that stock cannot load."""
        self._source = source
        self._goal = goal
        self._commands: list[str] = []
        with _contained():
            try:
                self._game = _load(source, goal)
                self.turn = _turn(self._game.reset(), 0.0, done=False)
            except (KeyError, ValueError) as error:
                raise EnvironmentDataError(
                    f"stock TextWorld cannot load {source.task_id} ({type(error).__name__}: {error}); "
                    "games of the older release play on engine = native only"
                ) from error

    def reset(self) -> Turn:
        """Start anew."""
        if self._commands:
            self._commands.clear()
            with _contained():
                self.turn = _turn(self._game.reset(), 0.0, done=False)
        return self.turn

    def step(self, command: str) -> Turn:
        """Give one command."""
        with _contained():
            state, reward, done = self._game.step(command)
        self._commands.append(command)
        self.turn = _turn(state, float(reward), done=bool(done))
        return self.turn

    def clone(self) -> "TextworldEpisode":
        """A second game, brought to the same state by the same commands: stock has no other way."""
        twin = TextworldEpisode(self._source, self._goal)
        for command in self._commands:
            twin.step(command)
        return twin

    def inventory(self) -> str:
        """What the agent holds, as sorted names."""
        names = self._game.state["_entity_infos"]
        held = [fact.arguments[-1].name for fact in self._game.state["_facts"] if fact.name == "holds"]
        return ", ".join(sorted(names[thing].name for thing in held))

    def true_state(self) -> bytes:
        """A digest of the true facts, but for those that only note what was looked at, or were taken away."""
        facts = sorted(fact for fact in self.facts() if fact.split(" ")[0] not in ("checked", "ison"))
        return blake2b("\n".join(facts).encode(), digest_size=16).digest()

    def facts(self) -> set[str]:
        """The facts that stock holds true, as ``predicate argument …``."""
        return {
            " ".join([fact.name, *(argument.name for argument in fact.arguments)])
            for fact in self._game.state["_facts"]
            if not fact.name.startswith(("not_", "new-axiom"))
        }


def _load(source: GameSource, goal: str) -> Any:
    try:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv
    except ImportError as error:
        raise EnvironmentDataError(
            f"engine = textworld needs the packages alfworld and textworld ({error}): pip install 'gagpo[env]'"
        ) from error
    game = AlfredDemangler(PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True)), shuffle=False)
    grammar = source.grammar.replace(source.goal, goal) if source.goal else source.grammar
    game.load({"pddl_domain": source.domain, "grammar": grammar, "pddl_problem": source.problem})
    return game


def _turn(state: Any, reward: float, *, done: bool) -> Turn:
    feedback = str(state.feedback)
    understood = feedback != NOTHING_HAPPENS
    return Turn(feedback, list(state["admissible_commands"]), bool(state["won"]), reward, done, understood)
