"""What an evaluation plays: how many held-out tasks of each environment, and under which seeds."""

from dataclasses import dataclass

from services.orchestrator.task_order import TaskSource, shares
from shared.recipe import EnvironmentSettings, Recipe


@dataclass(frozen=True, slots=True)
class EvaluationPart:
    """What is to be evaluated in one environment."""

    environment: EnvironmentSettings
    source: TaskSource
    episodes: int
    """0 where the environment's share of few episodes comes to none."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is to be evaluated."""

    parts: list[EvaluationPart]
    seed: int
    temperature: float
    concurrency: int
    retries: int

    @property
    def episodes(self) -> int:
        """Over all environments."""
        return sum(part.episodes for part in self.parts)


def evaluation_plan(
    recipe: Recipe, sources: list[TaskSource], episodes: int | None, seed: int | None, temperature: float | None
) -> EvaluationPlan:
    """The recipe's evaluation of the given splits, with whatever is not None in the place of the recipe's own.

    ``episodes`` are shared out by the environments' weights, and so are the recipe's where an environment names no
    number of its own.
    """
    given = recipe.evaluation
    wanted = recipe.environments
    numbers = shares([one.weight for one in wanted], given.episodes if episodes is None else episodes)
    if episodes is None:
        numbers = [one.eval_episodes or share for one, share in zip(wanted, numbers, strict=True)]
    return EvaluationPlan(
        parts=[EvaluationPart(*part) for part in zip(wanted, sources, numbers, strict=True)],
        seed=given.seed if seed is None else seed,
        temperature=given.temperature if temperature is None else temperature,
        concurrency=recipe.rollout.concurrency,
        retries=recipe.rollout.episode_retries,
    )
