"""ALFWorld as the env server serves it: tasks, options, observations and state keys."""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from services.env_server.environments.alfworld.dataset import AlfworldDataset, open_configured
from services.env_server.environments.alfworld.engine import Episode, NativeEpisode, Turn, observation
from services.env_server.environments.alfworld.expert import Planner
from services.env_server.environments.alfworld.game import Game, compile_game
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.options import OPTIONS, AlfworldOptions, default_engine, parse_options
from services.env_server.environments.alfworld.searcher import Guide, Searcher
from services.env_server.environments.alfworld.textworld_engine import TextworldEpisode
from services.env_server.environments.base import InvalidOptionError, Observation, StepOutcome
from services.env_server.environments.state_digest import digest, encoded, history_after
from shared.schemas.environment import EnvironmentDescription, InfoValue, StateKeyKind

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

MAX_STEPS = 50
"""The step limit that the literature's recipes use."""

GAMES_KEPT = 128
"""Compiled games that a process remembers: the groups of a training step reopen theirs often."""


class AlfworldEnvironment:
    """One live episode."""

    def __init__(self, episode: Episode, source: GameSource, goal: str, coach: "Coach | None") -> None:
        """Use `AlfworldFamily.open`."""
        self._episode = episode
        self._source = source
        self._goal = goal
        self._coach = coach
        self._text = observation(episode.turn.feedback)
        self._history = b""

    def reset(self) -> Observation:
        """Start the episode anew and return its first observation."""
        turn = self._episode.reset()
        if self._coach is not None:
            self._coach.reset()
        self._text = observation(turn.feedback)
        self._history = digest(encoded(self._text))
        return self._observe(turn)

    def step(self, action: str) -> StepOutcome:
        """Apply one action; anything that is not an admissible command changes nothing."""
        turn = self._episode.step(action)
        if self._coach is not None:
            self._coach.follow(action)
        self._text = observation(turn.feedback)
        self._history = history_after(self._history, action, self._text)
        return StepOutcome(self._observe(turn), turn.reward, turn.done, turn.understood)

    def clone(self) -> "AlfworldEnvironment":
        """An independent copy in the same state."""
        coach = None if self._coach is None else self._coach.clone()
        twin = AlfworldEnvironment.__new__(AlfworldEnvironment)
        twin._episode, twin._source, twin._goal = self._episode.clone(), self._source, self._goal
        twin._coach, twin._text, twin._history = coach, self._text, self._history
        return twin

    def state_key(self, kind: StateKeyKind) -> str:
        """16 hexadecimal digits, equal exactly when two states of the same task are the same under ``kind``."""
        match kind:
            case StateKeyKind.OBSERVATION:
                data = self._text.encode()
            case StateKeyKind.OBSERVATION_INVENTORY:
                data = f"{self._text}\0{self._episode.inventory()}".encode()
            case StateKeyKind.SIMULATOR:
                data = self._episode.true_state()
            case StateKeyKind.HISTORY:
                data = self._history
        return digest(data).hex()

    def _observe(self, turn: Turn) -> Observation:
        info: dict[str, InfoValue] = {"won": turn.won, "task_type": self._source.task_type, "goal": self._goal}
        if self._coach is not None:
            info["expert_action"] = self._coach.action()
            info["optimal_steps"] = self._coach.optimal_steps
        return Observation(self._text, turn.admissible, info)


class Coach:
    """Follows an episode on a native game of its own, whatever engine plays it, and says what the expert would do."""

    def __init__(self, compiled: "CompiledGame", options: AlfworldOptions) -> None:
        """Starts at the beginning of the game."""
        self._compiled = compiled
        self._searcher = (
            Searcher(compiled.planner, options.expert_seed, knows_homes=options.expert_style == "searching")
            if options.expert_style != "optimal"
            else None
        )
        self.reset()

    @property
    def optimal_steps(self) -> int | None:
        """Length of the oracle's plan from the start; None for a game that it cannot win."""
        return self._compiled.optimal_steps

    def reset(self) -> None:
        """Back to the start."""
        self._state = self._compiled.game.initial
        self._guide = Guide(self._compiled.planner, self._searcher)

    def follow(self, action: str) -> None:
        """Take note of what the agent did."""
        operator = self._compiled.game.view(self._state).operators.get(action.strip())
        if operator is not None:
            after = self._compiled.game.apply(self._state, operator)
            self._guide.follow(operator, self._state, after)
            self._state = after

    def action(self) -> str | None:
        """The expert's next command; None when there is nothing left to do."""
        return self._guide.action(self._state)

    def clone(self) -> "Coach":
        """An independent copy."""
        twin = Coach.__new__(Coach)
        twin._compiled, twin._searcher, twin._state = self._compiled, self._searcher, self._state
        twin._guide = self._guide.clone()
        return twin


class CompiledGame:
    """A game ready to play, with the plans made for it."""

    def __init__(self, source: GameSource, goal: str) -> None:
        """Raises `EnvironmentDataError` for a game that does not parse."""
        self.game: Game = compile_game(source, goal)
        self.planner = Planner(self.game)
        self._optimal_steps: int | None = None

    @property
    def optimal_steps(self) -> int | None:
        """Length of the oracle's plan from the start, made when first asked for."""
        if self._optimal_steps is None:
            moves = self.planner.moves(self.game.initial)
            self._optimal_steps = None if moves is None else len(moves)
        return self._optimal_steps


class AlfworldFamily:
    """All ALFWorld tasks of the data that ``ALFWORLD_DATA`` points to, or of generated data where it is not set."""

    def __init__(self, dataset: AlfworldDataset | None = None) -> None:
        """Raises `EnvironmentDataError` when the data is missing or damaged, or the settings name no engine."""
        self._engine = default_engine(os.environ)
        self.dataset = open_configured() if dataset is None else dataset
        self._compiled: OrderedDict[tuple[str, str], CompiledGame] = OrderedDict()
        self._sources: OrderedDict[str, GameSource] = OrderedDict()

    def describe(self) -> EnvironmentDescription:
        """Splits and sizes, options, versions and the data's digest."""
        return EnvironmentDescription(
            name="alfworld",
            splits={split: len(ids) for split, ids in self.dataset.splits.items()},
            max_steps=MAX_STEPS,
            action_format="one of the admissible commands, such as: go to desk 1",
            options=[
                option.describe().model_copy(update={"default": self._engine} if option.name == "engine" else {})
                for option in OPTIONS
            ],
            versions={name: found for name in ("gagpo", "alfworld", "textworld") if (found := _version(name))},
            data_digest=self.dataset.digest,
        )

    def tasks(self, split: str) -> Sequence[str]:
        """The task ids of a split, in order. Raises `UnknownSplitError`."""
        return self.dataset.tasks(split)

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> AlfworldEnvironment:
        """An episode of a task, not yet reset.

        Raises `UnknownTaskError`, `InvalidOptionError`, or `EnvironmentDataError` where the task's data is damaged.
        """
        chosen = parse_options(options, self._engine)
        source = self._source(task_id)
        goal = _goal(source, chosen)
        episode: Episode
        coach = Coach(self._game(source, goal), chosen) if chosen.expert else None
        if chosen.engine == "native":
            episode = NativeEpisode(self._game(source, goal).game)
        else:
            episode = TextworldEpisode(source, goal)
        return AlfworldEnvironment(episode, source, goal, coach)

    def _source(self, task_id: str) -> GameSource:
        source = self._sources.get(task_id)
        if source is None:
            source = self.dataset.load(task_id)
        return _remember(self._sources, task_id, source)

    def _game(self, source: GameSource, goal: str) -> CompiledGame:
        compiled = self._compiled.get((source.task_id, goal)) or CompiledGame(source, goal)
        return _remember(self._compiled, (source.task_id, goal), compiled)


def _remember(kept: "OrderedDict[_Key, _Value]", key: _Key, value: _Value) -> _Value:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > GAMES_KEPT:
        kept.popitem(last=False)
    return value


def _goal(source: GameSource, options: AlfworldOptions) -> str:
    if options.goal_style == "templated":
        return source.goal
    if options.human_goal >= len(source.human_goals):
        if not source.human_goals:
            remedy = "use goal_style = templated, or data with human annotations"
            raise InvalidOptionError("goal_style", f"{source.task_id} has no human goals: {remedy}")
        last = len(source.human_goals) - 1
        why = f"human_goal = {options.human_goal}: {source.task_id} has human goals from 0 to {last}"
        raise InvalidOptionError("human_goal", why)
    return source.human_goals[options.human_goal]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
