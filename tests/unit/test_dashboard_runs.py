"""What the dashboard tells about jobs: progress and time left, events in words, evaluations, times and sizes."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from services.trainer.dashboard.metrics_file import Row
from services.trainer.dashboard.run_catalogue import Run, first_choice, optimal_length
from services.trainer.dashboard.run_data import evaluations, in_words
from services.trainer.dashboard.runs_data import job_line
from services.trainer.dashboard.words import ago, clock, duration, percent, size
from services.trainer.server.run_folder import RunFolder
from shared.buffer import Event
from shared.run_layout import RunFiles
from shared.schemas.evaluation import (
    EnvironmentFigures,
    EpisodeEnd,
    EpisodeReport,
    EvaluationReport,
    Interval,
    StepsToOptimum,
)
from shared.schemas.job import Job, JobState

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _job(state: JobState = JobState.RUNNING, version: int = 20) -> Job:
    return Job(id="a", name="maze", state=state, submitted_at=NOON, policy_version=version, steps=30)


def test_time_left_is_told_from_the_latest_ten_steps_of_a_running_job() -> None:
    rows: list[Row] = [{"seconds_total": 1000.0, "seconds_checkpoint": 0.0, "success_rate": 0.1}] * 10
    rows += [{"seconds_total": 5.0, "seconds_checkpoint": 1.0, "success_rate": 0.75}] * 10
    line = job_line(_job(), "gagpo on maze", rows)
    assert (line.step_s, line.left_s, line.success, line.share_done) == (6.0, 60.0, 0.75, 20 / 30)
    assert job_line(_job(JobState.CANCELLED), "", rows).left_s is None
    fresh = job_line(_job(version=0), "", [])
    assert (fresh.step_s, fresh.left_s, fresh.success, fresh.share_done) == (None, None, None, 0.0)


@pytest.mark.parametrize(
    ("kind", "payload", "said"),
    [
        ("state", {"state": "failed", "reason": "out of memory"}, "failed: out of memory"),
        ("state", {"state": "running", "reason": None}, "running"),
        (
            "step",
            {"version": 3, "success_rate": 0.5, "mean_episode_length": 9.25, "seconds_total": 71.0},
            "3 · success 50.0% · length 9.2 · 1 min",
        ),
        ("step", {"version": 3, "success_rate": None}, "3 · success –"),
        ("weights", {"version": 4, "seconds": 0.25}, "policy servers hold version 4 in 0.2 s"),
        ("checkpoint", {"version": 4}, "version 4 written"),
        ("group-dropped", {"index": 1, "step": 2, "reason": "no server"}, "group 1 of step 2: no server"),
        ("evaluation", {"when": "after", "success_rate": 0.875}, "after training: success 87.5%"),
        ("evaluation-failed", {"when": "before", "reason": "no server"}, "before training: no server"),
        ("note", {"message": "generate is for local runs"}, "generate is for local runs"),
        ("of-a-later-release", {"x": 1}, '{"x": 1}'),
    ],
)
def test_events_are_told_in_words(kind: str, payload: dict[str, JsonValue], said: str) -> None:
    assert in_words(Event("1-0", kind, 0.0, payload)) == said


def test_evaluations_are_rows_and_the_optimum_is_the_experts_mean_length(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert evaluations(folder) == [] and optimal_length(RunFiles(tmp_path)) is None
    _write_evaluation(folder)
    (row,) = evaluations(folder)
    assert (row.when, row.environment, row.episodes, row.success, row.to_optimum) == ("after", "maze", 2, 0.5, 1.25)
    assert optimal_length(RunFiles(tmp_path)) == 7.0


def _write_evaluation(folder: RunFolder) -> None:
    results = [
        EpisodeReport(
            environment="maze",
            task_id=f"maze-{number}",
            task_type="walk",
            won=number == 0,
            score=1.0 - number,
            steps=8,
            invalid_actions=0,
            tokens=20,
            end=EpisodeEnd.TERMINATED,
            optimal_steps=6 + 2 * number,
        )
        for number in range(2)
    ]
    figures = EnvironmentFigures(
        split="valid",
        episodes=2,
        won=1,
        success_rate=0.5,
        success_interval=Interval(low=0.1, high=0.9),
        mean_score=0.5,
        score_interval=None,
        mean_steps=8.0,
        mean_steps_won=8.0,
        optimum=StepsToOptimum(episodes=1, mean_ratio=1.25, interval=None, optimal_share=0.0),
        invalid_action_rate=0.0,
        tokens=40,
        task_types={},
    )
    report = EvaluationReport(
        **figures.model_dump(exclude={"split"}),
        environments={"maze": figures},
        seed=1,
        temperature=0.0,
        policy_version=3,
        policy_version_last=3,
        seconds=1.0,
        results=results,
    )
    folder.evaluation("after").write_text(report.model_dump_json())


def test_the_run_at_work_is_shown_first_else_the_newest_that_has_trained(tmp_path: Path) -> None:
    def run(name: str, state: JobState | None, version: int = 1) -> Run:
        job = None if state is None else _job(state, version).model_copy(update={"id": name})
        return Run(name, RunFiles(tmp_path / name), job)

    waiting, running, done = (
        run("waiting", JobState.QUEUED, 0),
        run("running", JobState.RUNNING),
        run("done", JobState.COMPLETED),
    )
    assert first_choice([waiting, done, running]) == ["running"]
    assert first_choice([waiting, done, run("by hand", None)]) == ["done"]
    assert first_choice([waiting, run("by hand", None)]) == ["by hand"]
    assert first_choice([waiting]) == []


def test_times_and_sizes_are_said_as_people_say_them() -> None:
    said = [duration(seconds) for seconds in (0.0, 9.96, 42.4, 150, 3600, 7500, 200_000)]
    assert said == ["0.0 s", "10.0 s", "42 s", "2 min", "1 h", "2 h 5 min", "2 d 7 h"]
    assert [size(count) for count in (0, 812, 9_900_000, 300 * 1024**2, 3 * 1024**4)] == [
        "0 B",
        "812 B",
        "9.4 MB",
        "300 MB",
        "3.0 TB",
    ]
    assert (percent(0.625), percent(None)) == ("62.5%", "–")
    assert clock(NOON) == "2026-11-30 12:00:00"
    assert (ago(NOON, NOON), ago(NOON, NOON.replace(minute=3))) == ("just now", "3 min ago")
