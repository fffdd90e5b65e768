"""``summary.json``: what came of a run."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel

from gagpo.training.records import StepMetrics
from shared.files import write_atomically
from shared.schemas.evaluation import EpisodeFigures, EvaluationReport, Interval


class EvaluationSummary(BaseModel):
    """Held-out episodes: all of them, or those of one environment."""

    episodes: int
    success_rate: float
    success_interval: Interval
    """Wilson's 95% score interval."""
    mean_score: float
    score_interval: Interval | None
    """95%, by the normal approximation."""
    mean_steps: float
    invalid_action_rate: float

    @classmethod
    def of(cls, figures: EpisodeFigures) -> Self:
        """What a summary tells of them."""
        return cls.model_validate(figures.model_dump(include=set(cls.model_fields)))


class HeldOut(EvaluationSummary):
    """One held-out evaluation."""

    policy_version: int
    environments: dict[str, EvaluationSummary]


class Gain(BaseModel):
    """Held-out figures after training, minus before."""

    success_points: float
    """Percentage points."""
    score: float

    @classmethod
    def between(cls, before: EpisodeFigures, after: EpisodeFigures) -> Self:
        """What changed from one evaluation to another."""
        return cls(
            success_points=100 * (after.success_rate - before.success_rate), score=after.mean_score - before.mean_score
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
    before: HeldOut | None
    after: HeldOut | None
    gain: Gain | None
    gains: dict[str, Gain]
    """Of each environment."""

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
    gain, gains = None, {}
    if before is not None and after is not None:
        gain = Gain.between(before, after)
        gains = {
            name: Gain.between(own, after.environments[name])
            for name, own in before.environments.items()
            if name in after.environments
        }
    return Summary(
        run=run,
        recipe=recipe,
        seed=seed,
        training_steps=len(metrics),
        policy_version=metrics[-1].version if metrics else 0,
        seconds_training=sum(row.seconds_total for row in metrics),
        episodes=sum(row.episodes for row in metrics),
        tokens_generated=sum(row.tokens_generated for row in metrics),
        before=None if before is None else HeldOut.of(before),
        after=None if after is None else HeldOut.of(after),
        gain=gain,
        gains=gains,
    )
