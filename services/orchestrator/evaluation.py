"""Evaluation: one episode on each of a seeded choice of held-out tasks, and what came of them."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.orchestrator.environments import Session
from services.orchestrator.episode import TurnSeeds
from services.orchestrator.groups import EPISODE_FAILURES
from services.orchestrator.setup import Players
from services.orchestrator.task_order import TaskChoice, TaskOrder, TaskSource
from shared.recipe import EnvironmentSettings, Recipe
from shared.schemas.evaluation import EpisodeReport, EvaluationReport, Interval, TaskTypeReport
from shared.trajectory import Episode

logger = logging.getLogger(__name__)

_Z_95 = 1.959963984540054
"""97.5% quantile of the standard normal distribution."""


class EvaluationError(RuntimeError):
    """Not a single episode could be finished."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is to be evaluated."""

    environments: list[EnvironmentSettings]
    """One for each source, in their order."""
    sources: list[TaskSource]
    episodes: int
    seed: int
    temperature: float
    concurrency: int
    retries: int


@dataclass(frozen=True, slots=True)
class _Outcome:
    environment: str
    task_id: str
    task_type: str
    episode: Episode


def evaluation_plan(
    recipe: Recipe, sources: list[TaskSource], episodes: int | None, seed: int | None, temperature: float | None
) -> EvaluationPlan:
    """The recipe's evaluation of the given splits, with whatever is not None in the place of the recipe's own."""
    given = recipe.evaluation
    return EvaluationPlan(
        environments=list(recipe.environments),
        sources=sources,
        episodes=given.episodes if episodes is None else episodes,
        seed=given.seed if seed is None else seed,
        temperature=given.temperature if temperature is None else temperature,
        concurrency=recipe.rollout.concurrency,
        retries=recipe.rollout.episode_retries,
    )


async def evaluate(players: Players, plan: EvaluationPlan, on_episode: Callable[[bool], None]) -> EvaluationReport:
    """Play every episode of the plan; ``on_episode`` is told after each whether it was won.

    Tasks are drawn without replacement as long as there are enough. Raises `EvaluationError` when no episode at all
    could be finished.
    """
    order = TaskOrder(plan.sources, plan.seed)
    slots = asyncio.Semaphore(plan.concurrency)
    started = time.monotonic()

    async def one(number: int) -> _Outcome | None:
        async with slots:
            outcome = await _play(players, plan, order.choice(number), number)
        if outcome is not None:
            on_episode(outcome.episode.won)
        return outcome

    async with asyncio.TaskGroup() as tasks:
        playing = [tasks.create_task(one(number)) for number in range(plan.episodes)]
    outcomes = [outcome for task in playing if (outcome := task.result()) is not None]
    if not outcomes:
        raise EvaluationError(f"none of the {plan.episodes} episodes could be finished: the log has the reasons")
    return _report(plan, outcomes, time.monotonic() - started)


def wilson_interval(successes: int, trials: int) -> Interval:
    """Wilson's score interval at 95% (E. B. Wilson, 1927) for ``trials`` ≥ 1."""
    share, z2 = successes / trials, _Z_95**2
    centre = share + z2 / (2 * trials)
    spread = _Z_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    # Rounding may leave the ends a hair outside of [0, 1].
    return Interval(low=max(0.0, (centre - spread) / scale), high=min(1.0, (centre + spread) / scale))


async def _play(players: Players, plan: EvaluationPlan, choice: TaskChoice, number: int) -> _Outcome | None:
    """One episode, tried again as often as the plan says; None when it failed every time."""
    environment, source = plan.environments[choice.source], plan.sources[choice.source]
    for attempt in range(plan.retries + 1):
        session: Session | None = None
        try:
            [session] = await players.environments.open(
                environment, split=source.split, index=choice.index, task_id=None, count=1
            )
            episode = await players.player.play(session, 0, TurnSeeds(plan.seed, number, attempt))
            task_type = session.first.info.get("task_type")
            kind = task_type if isinstance(task_type, str) else ""
            return _Outcome(environment.name, session.first.task_id, kind, episode)
        except EPISODE_FAILURES as error:
            logger.warning("try %d failed: %s", attempt + 1, error, extra={"episode": number})
        finally:
            if session is not None:
                await players.environments.close(session)
    return None


def _report(plan: EvaluationPlan, outcomes: Sequence[_Outcome], seconds: float) -> EvaluationReport:
    results = [_episode_report(outcome) for outcome in outcomes]
    won = sum(result.won for result in results)
    steps = sum(result.steps for result in results)
    versions = [
        int(version)
        for outcome in outcomes
        for step in outcome.episode.steps
        for version in (step.policy_versions.min(), step.policy_versions.max())
    ]
    kinds = sorted({result.task_type for result in results})
    return EvaluationReport(
        environments=[source.environment for source in plan.sources],
        splits=[source.split for source in plan.sources],
        seed=plan.seed,
        temperature=plan.temperature,
        policy_version=min(versions),
        policy_version_last=max(versions),
        episodes=len(results),
        won=won,
        failed=plan.episodes - len(results),
        success_rate=won / len(results),
        success_interval=wilson_interval(won, len(results)),
        mean_steps=steps / len(results),
        mean_steps_won=sum(result.steps for result in results if result.won) / won if won else None,
        mean_score=sum(result.score for result in results) / len(results),
        invalid_action_rate=sum(result.invalid_actions for result in results) / steps,
        tokens=sum(result.tokens for result in results),
        seconds=seconds,
        task_types={kind: _task_type_report([one for one in results if one.task_type == kind]) for kind in kinds},
        results=results,
    )


def _task_type_report(results: Sequence[EpisodeReport]) -> TaskTypeReport:
    return TaskTypeReport(episodes=len(results), won=sum(result.won for result in results))


def _episode_report(outcome: _Outcome) -> EpisodeReport:
    episode = outcome.episode
    return EpisodeReport(
        environment=outcome.environment,
        task_id=outcome.task_id,
        task_type=outcome.task_type,
        won=episode.won,
        score=episode.score,
        steps=len(episode.steps),
        invalid_actions=sum(not step.valid_action for step in episode.steps),
        tokens=sum(len(step.token_ids) for step in episode.steps),
        end=episode.end,
        optimal_steps=episode.optimal_steps,
    )
