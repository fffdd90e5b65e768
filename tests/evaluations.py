"""Reports of evaluations, made on the spot."""

from pathlib import Path

from services.orchestrator.evaluation.report import evaluation_report
from shared.recipe import EnvironmentSettings
from shared.schemas.evaluation import (
    EpisodeReport,
    EvaluatedEnvironment,
    EvaluationReport,
    EvaluationSpec,
    PolicySpec,
    RandomPolicy,
)
from shared.trajectory import EpisodeEnd


def result(
    task: str,
    won: bool,
    *,
    sample: int = 0,
    score: float | None = None,
    steps: int = 4,
    optimal: int | None = None,
    kind: str = "a",
    end: EpisodeEnd = EpisodeEnd.TERMINATED,
) -> EpisodeReport:
    """One episode; its score is that of winning unless told."""
    return EpisodeReport(
        environment="maze",
        task_id=task,
        task_type=kind,
        sample=sample,
        won=won,
        score=float(won) if score is None else score,
        steps=steps,
        invalid_actions=1,
        tokens=10,
        prompt_tokens=100,
        end=end,
        optimal_steps=optimal,
    )


def spec(
    *,
    tasks: int = 2,
    samples: int = 1,
    seed: int = 1,
    split: str = "valid",
    data_digest: str | None = "d" * 64,
    policy: PolicySpec | None = None,
    max_steps: int = 12,
) -> EvaluationSpec:
    """What was played."""
    settings = EnvironmentSettings(name="maze", eval_split=split, max_steps=max_steps)
    return EvaluationSpec(
        policy=policy or RandomPolicy(),
        environments=[EvaluatedEnvironment(settings=settings, tasks=tasks, data_digest=data_digest)],
        samples=samples,
        seed=seed,
        temperature=1.0,
    )


def report(results: list[EpisodeReport], made_of: EvaluationSpec | None = None) -> EvaluationReport:
    """The report of these episodes."""
    tasks = len({one.task_id for one in results})
    return evaluation_report(made_of or spec(tasks=tasks, samples=len(results) // tasks), results, 1.0)


def saved(made: EvaluationReport, folder: Path) -> Path:
    """The report in a folder of its own, as ``gagpo eval`` leaves it."""
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(made.model_dump_json())
    return folder
