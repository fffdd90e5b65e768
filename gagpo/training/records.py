"""What a run wrote down, as the reports read it. docs/gagpo.md says what each metric means."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class EpisodeMetrics(BaseModel):
    """The episodes of a training step: all of them, or those of one environment."""

    model_config = ConfigDict(extra="ignore")

    success_rate: float
    mean_score: float
    mean_episode_length: float
    mean_reward: float
    episodes: int

    @property
    def graded(self) -> bool:
        """Whether scores tell more than won and lost."""
        return self.mean_score != self.success_rate

    def outcome(self) -> str:
        """Success, and the score where there is one."""
        return f"{self.success_rate:4.0%}" + (f" (score {self.mean_score:.2f})" if self.graded else "")


class StepMetrics(EpisodeMetrics):
    """A line of ``metrics.jsonl``: the part that progress bars and curves show."""

    step: int
    version: int
    environments: dict[str, EpisodeMetrics]
    kl_reference: float
    clip_fraction: float
    staleness_mean: float
    tokens_generated: int
    tokens_per_s_generated: float
    seconds_total: float

    def shown(self) -> str:
        """The step in one line."""
        outcome = f"success {self.outcome()}"
        if len(self.environments) > 1:
            outcome = "  ".join(f"{name} {own.outcome()}" for name, own in self.environments.items())
        return (
            f"{outcome}  length {self.mean_episode_length:4.1f}  "
            f"reward {self.mean_reward:5.2f}  KL {self.kl_reference:.3f}  clip {self.clip_fraction:4.1%}  "
            f"{self.tokens_per_s_generated:4.0f} tokens/s  staleness {self.staleness_mean:.1f}"
        )


def read_metrics(file: Path) -> list[StepMetrics]:
    """Every step's metrics, in order; empty where nothing was written yet."""
    if not file.exists():
        return []
    return [StepMetrics.model_validate_json(line) for line in file.read_text().splitlines()]
