"""What an evaluation plays: from a recipe to its spec, and from a spec to the tasks."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.orchestrator.task_order import TaskOrder, TaskSource, shares
from shared.recipe import EnvironmentSettings, Recipe
from shared.schemas.evaluation import EvaluatedEnvironment, EvaluationSpec, ServedPolicy


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """One episode that is to be played."""

    environment: EnvironmentSettings
    split: str
    task_index: int
    """Index of the task in its split."""
    number: int
    """Place of the task in the order in which they were drawn, over all environments, from 0."""
    sample: int
    """Which of the task's episodes, from 0."""


def recipe_spec(
    recipe: Recipe, episodes: int | None = None, seed: int | None = None, temperature: float | None = None
) -> EvaluationSpec:
    """A recipe's evaluation of its policy, with whatever is not None in the place of the recipe's own.

    ``episodes`` are shared out by the environments' weights, and so are the recipe's where an environment names no
    number of its own. One episode is played of each task.
    """
    given, wanted = recipe.evaluation, recipe.environments
    numbers = shares([one.weight for one in wanted], given.episodes if episodes is None else episodes)
    if episodes is None:
        numbers = [one.eval_episodes or share for one, share in zip(wanted, numbers, strict=True)]
    return EvaluationSpec(
        policy=ServedPolicy(model=recipe.model.path),
        environments=[
            EvaluatedEnvironment(settings=one, tasks=number) for one, number in zip(wanted, numbers, strict=True)
        ],
        seed=given.seed if seed is None else seed,
        temperature=given.temperature if temperature is None else temperature,
        concurrency=recipe.rollout.concurrency,
        retries=recipe.rollout.episode_retries,
    )


def planned_episodes(spec: EvaluationSpec, sources: list[TaskSource]) -> Iterator[PlannedEpisode]:
    """Every episode, environment by environment. ``sources`` are the splits to draw from, one an environment.

    Tasks are drawn without replacement as long as there are enough; which ones depends on the seed and on their own
    environment alone.
    """
    number = 0
    for environment, source in zip(spec.environments, sources, strict=True):
        order = TaskOrder([source], spec.seed)
        for place in range(environment.tasks):
            index = order.choice(place).index
            for sample in range(spec.samples):
                yield PlannedEpisode(environment.settings, source.split, index, number, sample)
            number += 1
