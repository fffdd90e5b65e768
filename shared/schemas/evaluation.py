"""Evaluations: what is to be played, every episode's transcript, and the report.

`services.orchestrator.evaluate` writes transcripts and report; the command line and the dashboard read them.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from shared.recipe.environment import EnvironmentSettings
from shared.schemas.environment import Message
from shared.trajectory import EpisodeEnd


class ServedPolicy(Message):
    """A model that policy servers serve."""

    kind: Literal["served"] = "served"
    model: Path
    """Folder of the model; its tokenizer makes the prompts."""
    digest: str | None = None
    """Digest of the weights (`shared.weights_digest`); None evaluates whatever is being served."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return str(self.model)


class RandomPolicy(Message):
    """Any admissible action, with equal chances."""

    kind: Literal["random"] = "random"

    @property
    def label(self) -> str:
        """What reports call it."""
        return "random"


class ExpertPolicy(Message):
    """What the environment's own expert would do; it gives up where that has nothing to propose."""

    kind: Literal["expert"] = "expert"

    @property
    def label(self) -> str:
        """What reports call it."""
        return "expert"


class EndpointApi(StrEnum):
    """Which OpenAI route is asked."""

    CHAT = "chat"
    """``/chat/completions``: the prompt is a user's message."""
    COMPLETIONS = "completions"
    """``/completions``: the prompt is a text to go on with."""


class EndpointPolicy(Message):
    """A model behind an OpenAI-compatible API."""

    kind: Literal["endpoint"] = "endpoint"
    url: str
    """Base URL, ``https://…/v1``."""
    model: str
    """Name under which the endpoint knows the model."""
    api: EndpointApi = EndpointApi.CHAT
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the API key; the key itself stands nowhere."""
    body: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields laid over every request's body; null takes one out."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return f"{self.model} at {self.url}"


PolicySpec = Annotated[ServedPolicy | RandomPolicy | ExpertPolicy | EndpointPolicy, Field(discriminator="kind")]
"""Who plays."""


class EvaluatedEnvironment(Message):
    """What is played of one environment."""

    settings: EnvironmentSettings
    """Its ``eval_split`` is the split that is played."""
    tasks: int = Field(ge=0)
    """How many of its tasks; 0 where its share of few comes to none."""
    data_digest: str | None = None
    """Digest of the environment's tasks; None takes whatever the env server has."""


class EvaluationSpec(Message):
    """What is to be evaluated. Equal specs play equal tasks with equal sampling seeds."""

    policy: PolicySpec
    environments: list[EvaluatedEnvironment]
    samples: int = Field(default=1, ge=1)
    """Episodes of each task."""
    seed: int
    """Draws the tasks and seeds the sampling."""
    temperature: float = Field(ge=0.0)
    concurrency: int = Field(default=64, ge=1)
    """Episodes in flight at once; it changes speed, not what is played."""
    retries: int = Field(default=2, ge=0)
    """How often an episode that failed (not: lost) is tried again."""

    @property
    def episodes(self) -> int:
        """Over all environments."""
        return self.samples * sum(environment.tasks for environment in self.environments)


class Interval(Message):
    """A 95% confidence interval."""

    low: float
    high: float


class EpisodeReport(Message):
    """One episode of an evaluation."""

    environment: str
    task_id: str
    task_type: str
    sample: int = 0
    """Which of the task's episodes, from 0."""
    won: bool
    score: float
    """The environment's own grade, else the sum of its rewards (`shared.trajectory.Episode.score`)."""
    steps: int
    invalid_actions: int
    tokens: int
    """Tokens sampled."""
    prompt_tokens: int = 0
    """Tokens of all its prompts together."""
    end: EpisodeEnd
    optimal_steps: int | None = None
    """Length of the expert's plan, where the environment was asked for it and its expert wins."""
    policy_version: int = 0
    """The lowest version that sampled a token; 0 for a policy without versions."""
    policy_version_last: int = 0
    """The highest."""


class TranscriptStep(Message):
    """One step as it was played."""

    observation: str
    """What was seen before acting."""
    action: str
    """As the environment received it."""
    answer: str | None = None
    """All that the policy said, where that is more than the action."""
    reward: float
    valid_action: bool
    tokens: int = 0
    prompt_tokens: int = 0


class Transcript(Message):
    """One line of ``transcripts.jsonl``: an episode that could be finished."""

    number: int
    """Place of its task in the order in which they were drawn, over all environments, from 0."""
    attempt: int
    """How often it had failed before. With the evaluation's seed, number and sample it decides the sampling."""
    result: EpisodeReport
    seconds: float
    """Wall-clock time that it took beside all others."""
    steps: list[TranscriptStep]
    final_observation: str


class TaskTypeReport(Message):
    """The episodes of one kind of task."""

    episodes: int
    won: int
    tasks: int = 0
    success_rate: float | None = None
    success_interval: Interval | None = None
    mean_score: float | None = None
    score_interval: Interval | None = None
    mean_steps: float | None = None


class StepsToOptimum(Message):
    """Won episodes whose task's shortest known solution is known."""

    episodes: int
    mean_ratio: float
    """Mean of steps taken over steps of the expert's plan."""
    interval: Interval | None
    """Of that mean; null where it rests on a single task."""
    optimal_share: float
    """Share that took no more steps than the expert's plan."""


class PassAtK(Message):
    """The chance that at least one of k episodes of a task is won, estimated without bias from all its episodes."""

    rate: float
    interval: Interval


class EpisodeFigures(Message):
    """What came of at least one episode."""

    episodes: int
    won: int
    failed: int = 0
    """Episodes that could not be finished; they are left out of everything else."""
    tasks: int = 0
    """Different tasks that were played."""
    success_rate: float = Field(ge=0.0, le=1.0)
    success_interval: Interval
    """As shares from 0 to 1 (`shared.intervals.rate_interval`)."""
    mean_score: float
    score_interval: Interval | None
    """Of the mean score, by the normal approximation; null for a single task."""
    pass_at: dict[int, PassAtK] = Field(default_factory=dict)
    """k → pass@k, for k from 1 to the episodes of a task."""
    mean_steps: float
    """Mean length of an episode in steps, lost ones included."""
    mean_steps_won: float | None
    """Mean length of the episodes that were won; null where none was."""
    optimum: StepsToOptimum | None = None
    """Null where no episode was won whose optimum is known."""
    invalid_action_rate: float
    """Share of steps whose action the environment did not understand."""
    truncated_rate: float = 0.0
    """Share of episodes that a limit cut."""
    tokens: int
    """Tokens sampled."""
    prompt_tokens: int = 0
    """Tokens of all prompts."""
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
    """The lowest version that sampled a token; 0 for a policy without versions."""
    policy_version_last: int
    """The highest; equal to the lowest unless weights were pushed meanwhile."""
    seconds: float
    """Wall-clock time; of the last start where the evaluation was interrupted."""
    spec: EvaluationSpec | None = None
    """What was played; null in reports of older releases."""
    results: list[EpisodeReport]
    """One entry an episode, environment by environment, each in the order in which its tasks were drawn."""
