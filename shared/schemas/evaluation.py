"""The report of an evaluation: what `services.orchestrator.evaluate` writes and the CLI and the dashboard read."""

from pydantic import Field

from shared.schemas.environment import Message
from shared.trajectory import EpisodeEnd


class Interval(Message):
    """A 95% confidence interval, as shares from 0 to 1."""

    low: float
    high: float


class EpisodeReport(Message):
    """One episode of an evaluation."""

    environment: str
    task_id: str
    task_type: str
    won: bool
    score: float
    """Sum of the environment's own rewards."""
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


class EvaluationReport(Message):
    """How a policy does on a split. Two reports with equal split, seed, temperature and episodes are comparable."""

    environments: list[str]
    splits: list[str]
    """The split of each environment."""
    seed: int
    temperature: float
    policy_version: int
    """The lowest version that sampled a token."""
    policy_version_last: int
    """The highest; equal to the lowest unless weights were pushed meanwhile."""
    episodes: int
    won: int
    failed: int = 0
    """Episodes that could not be finished; they are left out of everything else."""
    success_rate: float = Field(ge=0.0, le=1.0)
    success_interval: Interval
    """Wilson's score interval."""
    mean_steps: float
    """Mean length of an episode in steps, lost ones included."""
    mean_steps_won: float | None
    """Mean length of the episodes that were won; null where none was."""
    mean_score: float
    invalid_action_rate: float
    """Share of steps whose action the environment did not understand."""
    tokens: int
    """Tokens sampled."""
    seconds: float
    task_types: dict[str, TaskTypeReport]
    results: list[EpisodeReport]
    """One entry an episode, in the order in which the tasks were drawn."""
