"""From the episodes of an evaluation to its report."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from shared.intervals import mean_interval, pass_at_k, rate_interval
from shared.schemas.evaluation import (
    EnvironmentFigures,
    EpisodeFigures,
    EpisodeReport,
    EvaluatedEnvironment,
    EvaluationReport,
    EvaluationSpec,
    PassAtK,
    StepsToOptimum,
    TaskTypeReport,
)
from shared.trajectory import EpisodeEnd

_CUT = frozenset({EpisodeEnd.STEP_LIMIT, EpisodeEnd.PROMPT_LIMIT})


class EvaluationError(RuntimeError):
    """There is nothing to report, or what was played before cannot be gone on with; the message says what to do."""


def evaluation_report(spec: EvaluationSpec, results: Sequence[EpisodeReport], seconds: float) -> EvaluationReport:
    """The report. Raises `EvaluationError` where not a single episode of an environment could be finished."""
    environments = {
        environment.settings.name: _environment_figures(environment, results, spec.samples)
        for environment in spec.environments
        if environment.tasks > 0
    }
    return EvaluationReport(
        **episode_figures(results, spec.episodes).model_dump(),
        environments=environments,
        seed=spec.seed,
        temperature=spec.temperature,
        policy_version=min(result.policy_version for result in results),
        policy_version_last=max(result.policy_version_last for result in results),
        seconds=seconds,
        spec=spec,
        results=list(results),
    )


def episode_figures(results: Sequence[EpisodeReport], planned: int) -> EpisodeFigures:
    """Figures of at least one episode, of ``planned`` that there should have been."""
    count = len(results)
    tasks = _by_task(results)
    steps = sum(result.steps for result in results)
    won = [result for result in results if result.won]
    kinds = sorted({result.task_type for result in results})
    return EpisodeFigures(
        episodes=count,
        won=len(won),
        failed=planned - count,
        tasks=len(tasks),
        success_rate=len(won) / count,
        success_interval=rate_interval(_wins(tasks)),
        mean_score=fmean(result.score for result in results),
        score_interval=mean_interval(_scores(tasks)),
        pass_at=_pass_at(tasks),
        mean_steps=steps / count,
        mean_steps_won=sum(result.steps for result in won) / len(won) if won else None,
        optimum=_steps_to_optimum(won),
        invalid_action_rate=sum(result.invalid_actions for result in results) / max(steps, 1),
        truncated_rate=sum(result.end in _CUT for result in results) / count,
        tokens=sum(result.tokens for result in results),
        prompt_tokens=sum(result.prompt_tokens for result in results),
        task_types={kind: _task_type_report([one for one in results if one.task_type == kind]) for kind in kinds},
    )


Tasks = Sequence[Sequence[EpisodeReport]]
"""The episodes of each task."""


def _by_task(results: Iterable[EpisodeReport]) -> Tasks:
    tasks: dict[tuple[str, str], list[EpisodeReport]] = {}
    for result in results:
        tasks.setdefault((result.environment, result.task_id), []).append(result)
    return list(tasks.values())


def _wins(tasks: Tasks) -> list[list[float]]:
    return [[float(result.won) for result in task] for task in tasks]


def _scores(tasks: Tasks) -> list[list[float]]:
    return [[result.score for result in task] for task in tasks]


def _pass_at(tasks: Tasks) -> dict[int, PassAtK]:
    """For every k that some task has episodes for; a task with fewer than k is left out of that k."""
    found = {}
    for k in range(1, max(map(len, tasks)) + 1):
        enough = [task for task in tasks if len(task) >= k]
        chances = [pass_at_k(len(task), sum(one.won for one in task), k) for task in enough]
        # A task's chance rests on all of its episodes, so that pass@1 has the interval of the success rate.
        clusters = [[chance] * len(task) for chance, task in zip(chances, enough, strict=True)]
        found[k] = PassAtK(rate=fmean(chances), interval=rate_interval(clusters))
    return found


def _steps_to_optimum(won: Sequence[EpisodeReport]) -> StepsToOptimum | None:
    tasks = [
        [one.steps / one.optimal_steps for one in task if one.optimal_steps]
        for task in _by_task(result for result in won if result.optimal_steps)
    ]
    ratios = [ratio for task in tasks for ratio in task]
    if not ratios:
        return None
    return StepsToOptimum(
        episodes=len(ratios),
        mean_ratio=fmean(ratios),
        interval=mean_interval(tasks),
        optimal_share=sum(ratio <= 1 for ratio in ratios) / len(ratios),
    )


def _environment_figures(
    environment: EvaluatedEnvironment, results: Sequence[EpisodeReport], samples: int
) -> EnvironmentFigures:
    name, planned = environment.settings.name, environment.tasks * samples
    own = [result for result in results if result.environment == name]
    if not own:
        raise EvaluationError(f"none of the {planned} episodes of {name} could be finished: the log has the reasons")
    return EnvironmentFigures(**episode_figures(own, planned).model_dump(), split=environment.settings.eval_split)


def _task_type_report(results: Sequence[EpisodeReport]) -> TaskTypeReport:
    tasks = _by_task(results)
    return TaskTypeReport(
        episodes=len(results),
        won=sum(result.won for result in results),
        tasks=len(tasks),
        success_rate=fmean(float(result.won) for result in results),
        success_interval=rate_interval(_wins(tasks)),
        mean_score=fmean(result.score for result in results),
        score_interval=mean_interval(_scores(tasks)),
        mean_steps=fmean(result.steps for result in results),
    )
