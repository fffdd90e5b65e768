"""The tests' maze with an expert: the smallest environment that knows its optimum.

Its option ``expert`` puts ``expert_action`` and ``optimal_steps`` into info. The expert knows no way in a maze of
``lost_in`` rooms, and its episodes have a score: 1 for a win, 0.5 for the coin alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from services.env_server.environments.base import Observation, StepOutcome
from shared.schemas.environment import EnvironmentDescription, InfoValue, OptionDescription, StateKeyKind
from tests.environments.maze import Maze, MazeFamily


@dataclass(slots=True)
class GuidedMaze:
    """One live episode."""

    maze: Maze
    expert: bool
    lost_in: int

    def reset(self) -> Observation:
        """See `Maze`."""
        return self._guided(self.maze.reset())

    def step(self, action: str) -> StepOutcome:
        """See `Maze`."""
        outcome = self.maze.step(action)
        return StepOutcome(self._guided(outcome.observation), outcome.reward, outcome.terminated, outcome.valid_action)

    def clone(self) -> Self:
        """An independent copy."""
        return type(self)(self.maze.clone(), self.expert, self.lost_in)

    def state_key(self, kind: StateKeyKind) -> str:
        """See `Maze`."""
        return self.maze.state_key(kind)

    def _guided(self, observation: Observation) -> Observation:
        won = bool(observation.info["won"])
        info: dict[str, InfoValue] = {**observation.info, "score": 1.0 if won else 0.5 * self.maze.coin}
        if self.expert:
            lost = self.maze.rooms == self.lost_in
            at_coin = self.maze.room == self.maze.rooms // 2 and not self.maze.coin
            info["expert_action"] = None if lost else "take coin" if at_coin else "north"
            # North to the coin, the coin, and north to the last room.
            info["optimal_steps"] = None if lost else self.maze.rooms
        return Observation(observation.text, observation.admissible_actions, info)


@dataclass(slots=True)
class GuidedMazeFamily:
    """All mazes, under the name ``guided``."""

    mazes: MazeFamily = field(default_factory=MazeFamily)

    def describe(self) -> EnvironmentDescription:
        """See `EnvironmentFamily`."""
        options = [
            OptionDescription(name="expert", description="Ask the expert.", default=False),
            OptionDescription(name="lost_in", description="Rooms of the maze that it knows no way in.", default=0),
        ]
        return self.mazes.describe().model_copy(update={"name": "guided", "options": options})

    def tasks(self, split: str) -> list[str]:
        """See `EnvironmentFamily`."""
        return list(self.mazes.tasks(split))

    def open(self, task_id: str, options: Mapping[str, InfoValue]) -> GuidedMaze:
        """See `EnvironmentFamily`."""
        lost_in = options.get("lost_in", 0)
        assert isinstance(lost_in, int)
        return GuidedMaze(self.mazes.open(task_id, {}), options.get("expert") is True, lost_in)
