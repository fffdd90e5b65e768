"""Mazes of three to five rooms, in which a policy that knows nothing now and then finds the way out."""

from collections.abc import Sequence

from shared.schemas.environment import EnvironmentDescription
from tests.environments.maze import MazeFamily

TASKS = 3


class SmallMazeFamily(MazeFamily):
    """The smallest of all mazes."""

    def describe(self) -> EnvironmentDescription:
        """See `EnvironmentFamily`."""
        described = super().describe()
        return described.model_copy(update={"splits": dict.fromkeys(described.splits, TASKS)})

    def tasks(self, split: str) -> Sequence[str]:
        """See `EnvironmentFamily`."""
        return super().tasks("train")[:TASKS]
