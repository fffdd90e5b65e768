"""From the episodes of an evaluation to its report."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from services.orchestrator.evaluation_plan import EvaluationPart, EvaluationPlan
from shared.schemas.evaluation import (
    EnvironmentFigures,
    EpisodeFigures,
    EpisodeReport,
    EvaluationReport,
    Interval,
    TaskTypeReport,
)
from shared.trajectory import Episode

_Z_95 = 1.959963984540054
"""97.5% quantile of the standard normal distribution."""


class EvaluationError(RuntimeError):
    """Not a single episode of an environment could be finished."""


@dataclass(frozen=True, slots=True)
class EvaluatedEpisode:
    """An episode that could be finished."""

    environment: str
    task_id: str
    task_type: str
    episode: Episode


def evaluation_report(plan: EvaluationPlan, outcomes: Sequence[EvaluatedEpisode], seconds: float) -> EvaluationReport:
    """The report. Raises `EvaluationError` where there is nothing to tell of an environment."""
    results = [_episode_report(outcome) for outcome in outcomes]
    environments = {
        part.environment.name: _environment_figures(part, results) for part in plan.parts if part.episodes > 0
    }
    versions = [
        int(version)
        for outcome in outcomes
        for step in outcome.episode.steps
        for version in (step.policy_versions.min(), step.policy_versions.max())
    ]
    return EvaluationReport(
        **episode_figures(results, plan.episodes).model_dump(),
        environments=environments,
        seed=plan.seed,
        temperature=plan.temperature,
        policy_version=min(versions),
        policy_version_last=max(versions),
        seconds=seconds,
        results=results,
    )


def episode_figures(results: Sequence[EpisodeReport], planned: int) -> EpisodeFigures:
    """Figures of at least one episode, of ``planned`` that there should have been."""
    won = sum(result.won for result in results)
    steps = sum(result.steps for result in results)
    scores = [result.score for result in results]
    kinds = sorted({result.task_type for result in results})
    return EpisodeFigures(
        episodes=len(results),
        won=won,
        failed=planned - len(results),
        success_rate=won / len(results),
        success_interval=wilson_interval(won, len(results)),
        mean_score=statistics.fmean(scores),
        score_interval=mean_interval(scores),
        mean_steps=steps / len(results),
        mean_steps_won=sum(result.steps for result in results if result.won) / won if won else None,
        invalid_action_rate=sum(result.invalid_actions for result in results) / steps,
        tokens=sum(result.tokens for result in results),
        task_types={kind: _task_type_report([one for one in results if one.task_type == kind]) for kind in kinds},
    )


def wilson_interval(successes: int, trials: int) -> Interval:
    """Wilson's score interval at 95% (E. B. Wilson, 1927) for ``trials`` ≥ 1."""
    share, z2 = successes / trials, _Z_95**2
    centre = share + z2 / (2 * trials)
    spread = _Z_95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    # Rounding may leave the ends a hair outside of [0, 1], or on the wrong side of the share.
    low, high = max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
    return Interval(low=min(low, share), high=max(high, share))


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean ± 1.96 standard errors, never beyond the lowest and the highest value; None for a single one."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    spread = _Z_95 * statistics.stdev(values, mean) / math.sqrt(len(values))
    low, high = max(min(values), mean - spread), min(max(values), mean + spread)
    return Interval(low=min(low, mean), high=max(high, mean))


def _environment_figures(part: EvaluationPart, results: Sequence[EpisodeReport]) -> EnvironmentFigures:
    name = part.environment.name
    own = [result for result in results if result.environment == name]
    if not own:
        raise EvaluationError(
            f"none of the {part.episodes} episodes of {name} could be finished: the log has the reasons"
        )
    return EnvironmentFigures(**episode_figures(own, part.episodes).model_dump(), split=part.source.split)


def _task_type_report(results: Sequence[EpisodeReport]) -> TaskTypeReport:
    return TaskTypeReport(episodes=len(results), won=sum(result.won for result in results))


def _episode_report(outcome: EvaluatedEpisode) -> EpisodeReport:
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
