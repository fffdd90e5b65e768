"""The report of an evaluation: what `services.orchestrator.evaluate` writes and the CLI and the dashboard read."""

from pydantic import Field

from shared.schemas.environment import Message
from shared.trajectory import EpisodeEnd


class Interval(Message):
    """A 95% confidence interval."""

    low: float
    high: float


class EpisodeReport(Message):
    """One episode of an evaluation."""

    environment: str
    task_id: str
    task_type: str
    won: bool
    score: float
    """The environment's own grade, else the sum of its rewards (`shared.trajectory.Episode.score`)."""
    steps: int
    invalid_actions: int
    tokens: int
    """Tokens sampled."""
    end: EpisodeEnd
    optimal_steps: int | None = None
    """Length of the expert's plan, where the environment was asked for it."""


class TaskTypeReport(Message):
    """The episodes of one kind of task."""

    episodes: int
    won: int


class EpisodeFigures(Message):
    """What came of at least one episode."""

    episodes: int
    won: int
    failed: int = 0
    """Episodes that could not be finished; they are left out of everything else."""
    success_rate: float = Field(ge=0.0, le=1.0)
    success_interval: Interval
    """Wilson's score interval, as shares from 0 to 1."""
    mean_score: float
    score_interval: Interval | None
    """Of the mean score, by the normal approximation; null for a single episode."""
    mean_steps: float
    """Mean length of an episode in steps, lost ones included."""
    mean_steps_won: float | None
    """Mean length of the episodes that were won; null where none was."""
    invalid_action_rate: float
    """Share of steps whose action the environment did not understand."""
    tokens: int
    """Tokens sampled."""
    task_types: dict[str, TaskTypeReport]

    @property
    def graded(self) -> bool:
        """Whether scores tell more than won and lost."""
        return self.mean_score != self.success_rate


class EnvironmentFigures(EpisodeFigures):
    """The episodes of one environment."""

    split: str


class EvaluationReport(EpisodeFigures):
    """How a policy does on held-out tasks: the figures of all episodes, and those of each environment.

    Two reports with equal splits, seed, temperature and numbers of episodes are comparable.
    """

    environments: dict[str, EnvironmentFigures]
    seed: int
    temperature: float
    policy_version: int
    """The lowest version that sampled a token."""
    policy_version_last: int
    """The highest; equal to the lowest unless weights were pushed meanwhile."""
    seconds: float
    results: list[EpisodeReport]
    """One entry an episode, environment by environment, each in the order in which its tasks were drawn."""
