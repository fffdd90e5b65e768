"""A maze of numbered rooms in a ring: the smallest environment that shows every part of the contract.

Serve it with ``GAGPO_ENV_ENVIRONMENTS='{"maze": "tests.environments.maze:MazeFamily"}'``. Walk ``north``, ``south`` or
``take coin``; the maze is won at the exit with the coin in hand. Two more actions are for tests of the server:
``sleep <seconds>`` hangs, and ``crash`` ends the process.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from services.env_server.environments.base import (
    InvalidOptionError,
    Observation,
    StepOutcome,
    UnknownSplitError,
    UnknownTaskError,
)
from shared.schemas.environment import EnvironmentDescription, InfoValue, OptionDescription, StateKeyKind

SPLITS = {"train": [f"maze-{rooms}" for rooms in range(3, 23)], "valid": [f"maze-{rooms}" for rooms in range(23, 28)]}


@dataclass(slots=True)
class Maze:
    """One live episode."""

    task_id: str
    rooms: int
    start_room: int
    room: int = 0
    coin: bool = False
    history: list[str] = field(default_factory=list)

    def reset(self) -> Observation:
        """Back to the first room, empty-handed."""
        self.room, self.coin, self.history = self.start_room, False, []
        observation = self._observation("You wake up in a maze.")
        self.history.append(observation.text)
        return observation

    def step(self, action: str) -> StepOutcome:
        """Walk, take the coin, hang or crash; all else changes nothing."""
        valid = True
        match action.split():
            case ["north"]:
                self.room, said = (self.room + 1) % self.rooms, "You walk north."
            case ["south"]:
                self.room, said = (self.room - 1) % self.rooms, "You walk south."
            case ["take", "coin"] if self.room == self._coin_room and not self.coin:
                self.coin, said = True, "You take the coin."
            case ["sleep", seconds]:
                time.sleep(float(seconds))
                said = "You slept."
            case ["crash"]:
                os._exit(42)
            case ["raise"]:
                raise RuntimeError("the maze collapses")
            case _:
                valid, said = False, "Nothing happens."
        won = self.coin and self.room == self.rooms - 1
        observation = self._observation(said)
        self.history += [action, observation.text]
        return StepOutcome(observation, 1.0 if won else 0.0, won, valid)

    def clone(self) -> Self:
        """An independent copy."""
        return replace(self, history=list(self.history))

    def state_key(self, kind: StateKeyKind) -> str:
        """See `StateKeyKind`."""
        match kind:
            case StateKeyKind.OBSERVATION:
                return self.history[-1]
            case StateKeyKind.OBSERVATION_INVENTORY:
                return f"{self.history[-1]}|{self.coin}"
            case StateKeyKind.SIMULATOR:
                return f"{self.room}|{self.coin}"
            case StateKeyKind.HISTORY:
                return "\n".join(self.history)

    @property
    def _coin_room(self) -> int:
        return self.rooms // 2

    def _observation(self, said: str) -> Observation:
        here = self.room == self._coin_room and not self.coin
        text = f"{said} Room {self.room} of {self.rooms}.{' A coin lies here.' if here else ''}"
        actions = ["north", "south", *(["take coin"] if here else [])]
        return Observation(text, actions, {"won": self.coin and self.room == self.rooms - 1, "task_type": "maze"})


class MazeFamily:
    """All mazes."""

    def describe(self) -> EnvironmentDescription:
        """See `EnvironmentFamily`."""
        start = OptionDescription(name="start", description="Room to start in.", default=0)
        return EnvironmentDescription(
            name="maze",
            splits={split: len(tasks) for split, tasks in SPLITS.items()},
            max_steps=30,
            action_format="north, south or take coin",
            options=[start],
            versions={"maze": "1"},
            data_digest=os.environ.get("MAZE_DIGEST", "0" * 64),
        )

    def tasks(self, split: str) -> Sequence[str]:
        """See `EnvironmentFamily`."""
        if split not in SPLITS:
            raise UnknownSplitError(f"split {split!r} is none of {sorted(SPLITS)}")
        return SPLITS[split]

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> Maze:
        """See `EnvironmentFamily`."""
        if all(task_id not in tasks for tasks in SPLITS.values()):
            raise UnknownTaskError(f"task_id: there is no maze {task_id!r}; GET /v1/environments/maze/tasks lists them")
        rooms = int(task_id.removeprefix("maze-"))
        for option in options:
            if option != "start":
                raise InvalidOptionError(option, f"options.{option}: is unknown; the maze knows: start")
        start = options.get("start", 0)
        if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < rooms:
            raise InvalidOptionError("start", f"options.start: {start!r} is not a room from 0 to {rooms - 1}")
        return Maze(task_id, rooms, start)
