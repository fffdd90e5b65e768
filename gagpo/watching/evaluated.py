"""The event of a held-out evaluation."""

from pydantic import BaseModel, ConfigDict


class _Figures(BaseModel):
    model_config = ConfigDict(extra="ignore")

    episodes: int
    success_rate: float
    success_interval: tuple[float, float]
    """95%, as shares from 0 to 1."""
    mean_score: float
    mean_steps: float

    def told(self) -> str:
        score = "" if self.mean_score == self.success_rate else f", score {self.mean_score:.3f}"
        low, high = self.success_interval
        return (
            f"{self.success_rate:.1%} (95%: {low:.1%}–{high:.1%}, {self.episodes} episodes, "
            f"mean length {self.mean_steps:.1f}){score}"
        )


class Evaluated(BaseModel):
    """What came of an evaluation ``before`` or ``after`` training."""

    model_config = ConfigDict(extra="ignore")

    when: str
    environments: dict[str, _Figures]

    def line(self) -> str:
        """Success in each environment, and the score where it tells more."""
        if len(self.environments) == 1:
            (figures,) = self.environments.values()
            return f"held-out success {self.when}: {figures.told()}"
        each = "; ".join(f"{name} {figures.told()}" for name, figures in self.environments.items())
        return f"held-out success {self.when}: {each}"
