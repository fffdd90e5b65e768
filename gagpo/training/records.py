"""What a run wrote down, as the reports read it. docs/gagpo.md says what each metric means."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class StepMetrics(BaseModel):
    """A line of ``metrics.jsonl``: the part that progress bars and curves show."""

    model_config = ConfigDict(extra="ignore")

    step: int
    version: int
    success_rate: float
    mean_episode_length: float
    mean_reward: float
    episodes: int
    kl_reference: float
    clip_fraction: float
    staleness_mean: float
    tokens_generated: int
    tokens_per_s_generated: float
    seconds_total: float

    def shown(self) -> str:
        """The step in one line."""
        return (
            f"success {self.success_rate:4.0%}  length {self.mean_episode_length:4.1f}  "
            f"reward {self.mean_reward:5.2f}  KL {self.kl_reference:.3f}  clip {self.clip_fraction:4.1%}  "
            f"{self.tokens_per_s_generated:4.0f} tokens/s  staleness {self.staleness_mean:.1f}"
        )


def read_metrics(file: Path) -> list[StepMetrics]:
    """Every step's metrics, in order; empty where nothing was written yet."""
    if not file.exists():
        return []
    return [StepMetrics.model_validate_json(line) for line in file.read_text().splitlines()]
