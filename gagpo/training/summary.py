"""``summary.json``: what came of a run."""

from pathlib import Path

from pydantic import BaseModel

from gagpo.training.records import StepMetrics
from shared.files import write_atomically
from shared.schemas.evaluation import EvaluationReport, Interval


class EvaluationSummary(BaseModel):
    """One held-out evaluation."""

    episodes: int
    success_rate: float
    success_interval: Interval
    """Wilson's 95% score interval."""
    mean_steps: float
    policy_version: int

    @classmethod
    def of(cls, report: EvaluationReport) -> "EvaluationSummary":
        """The report without its single episodes."""
        return cls(
            episodes=report.episodes,
            success_rate=report.success_rate,
            success_interval=report.success_interval,
            mean_steps=report.mean_steps,
            policy_version=report.policy_version,
        )


class Summary(BaseModel):
    """The figures that a run ends with."""

    run: str
    recipe: str
    seed: int
    training_steps: int
    policy_version: int
    """The version that the policy server holds at the end."""
    seconds_training: float
    """Wall-clock seconds of all training steps, interruptions left out."""
    episodes: int
    """Training episodes."""
    tokens_generated: int
    before: EvaluationSummary | None
    after: EvaluationSummary | None
    success_gain_points: float | None
    """Held-out success after minus before, in percentage points."""

    def save(self, file: Path) -> None:
        """Write the file whole or not at all."""
        write_atomically(file, f"{self.model_dump_json(indent=2)}\n".encode())


def summarise(
    run: str,
    recipe: str,
    seed: int,
    metrics: list[StepMetrics],
    before: EvaluationReport | None,
    after: EvaluationReport | None,
) -> Summary:
    """Put a run's figures together."""
    gain = None if before is None or after is None else 100 * (after.success_rate - before.success_rate)
    return Summary(
        run=run,
        recipe=recipe,
        seed=seed,
        training_steps=len(metrics),
        policy_version=metrics[-1].version if metrics else 0,
        seconds_training=sum(row.seconds_total for row in metrics),
        episodes=sum(row.episodes for row in metrics),
        tokens_generated=sum(row.tokens_generated for row in metrics),
        before=None if before is None else EvaluationSummary.of(before),
        after=None if after is None else EvaluationSummary.of(after),
        success_gain_points=gain,
    )
