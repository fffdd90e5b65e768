"""What a run reports: progress lines, summary, last lines and picture, for one environment and for several."""

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gagpo.training.outcome import outcome_lines
from gagpo.training.plot import plot_learning_curve
from gagpo.training.progress import StepBars
from gagpo.training.records import EpisodeMetrics, StepMetrics, read_metrics
from gagpo.training.summary import summarise
from shared.buffer.events import Event
from shared.schemas.evaluation import EnvironmentFigures, EvaluationReport, Interval


def episodes(success: float, score: float) -> EpisodeMetrics:
    return EpisodeMetrics(success_rate=success, mean_score=score, mean_episode_length=8.0, mean_reward=1.0, episodes=16)


def step(number: int, **environments: EpisodeMetrics) -> StepMetrics:
    first = next(iter(environments.values()))
    return StepMetrics(
        **first.model_dump(),
        step=number,
        version=number + 1,
        environments=environments,
        kl_reference=0.0,
        clip_fraction=0.0,
        staleness_mean=0.0,
        tokens_generated=100,
        tokens_per_s_generated=10.0,
        seconds_total=2.0,
    )


def figures(success: float, score: float) -> EnvironmentFigures:
    return EnvironmentFigures(
        split="valid",
        episodes=100,
        won=round(100 * success),
        success_rate=success,
        success_interval=Interval(low=success - 0.1, high=success + 0.1),
        mean_score=score,
        score_interval=Interval(low=score - 0.05, high=score + 0.05),
        mean_steps=8.0,
        mean_steps_won=7.0,
        invalid_action_rate=0.0,
        tokens=1000,
        task_types={},
    )


def report(version: int, **environments: EnvironmentFigures) -> EvaluationReport:
    first = next(iter(environments.values()))
    return EvaluationReport(
        **first.model_dump(exclude={"split"}),
        environments=environments,
        seed=1,
        temperature=1.0,
        policy_version=version,
        policy_version_last=version,
        seconds=1.0,
        results=[],
    )


BEFORE = report(0, alfworld=figures(0.3, 0.3), webshop=figures(0.1, 0.45))
AFTER = report(2, alfworld=figures(0.7, 0.7), webshop=figures(0.2, 0.65))


def test_a_steps_line_tells_each_environment_and_scores_only_what_is_graded() -> None:
    both = step(0, alfworld=episodes(0.5, 0.5), webshop=episodes(0.25, 0.6)).shown()
    assert "alfworld  50%  webshop  25% (score 0.60)" in both
    assert step(0, alfworld=episodes(0.5, 0.5)).shown().startswith("success  50%  length")
    assert step(0, webshop=episodes(0.25, 0.6)).shown().startswith("success  25% (score 0.60)  length")


def test_metrics_are_read_back_with_each_environments_own(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    rows = [step(0, alfworld=episodes(0.5, 0.5)), step(1, alfworld=episodes(0.6, 0.6), webshop=episodes(0.1, 0.4))]
    file.write_text("".join(row.model_dump_json() + "\n" for row in rows))
    assert read_metrics(file) == rows


def test_the_last_lines_tell_success_and_score_before_and_after_with_intervals() -> None:
    assert list(outcome_lines(BEFORE, AFTER)) == [
        "alfworld held-out success before: 30.0% (95%: 20.0%–40.0%, 100 episodes, mean length 8.0)",
        "alfworld held-out success  after: 70.0% (95%: 60.0%–80.0%, 100 episodes, mean length 8.0)",
        "webshop held-out success before: 10.0% (95%: 0.0%–20.0%, 100 episodes, mean length 8.0)",
        "webshop held-out success  after: 20.0% (95%: 10.0%–30.0%, 100 episodes, mean length 8.0)",
        "webshop held-out score   before: 0.450 (95%: 0.400–0.500)",
        "webshop held-out score    after: 0.650 (95%: 0.600–0.700)",
    ]
    alone = report(0, alfworld=figures(0.3, 0.3))
    assert [line.split(":")[0] for line in outcome_lines(alone, None)] == ["held-out success before"]


def test_the_summary_has_what_each_environment_gained() -> None:
    metrics = [step(0, alfworld=episodes(0.5, 0.5)), step(1, webshop=episodes(0.1, 0.4))]
    summary = summarise("run", "recipe", 1, metrics, BEFORE, AFTER)
    assert summary.after is not None
    assert summary.after.environments["webshop"].mean_score == 0.65
    assert round(summary.gains["webshop"].score, 6) == 0.2
    assert round(summary.gains["alfworld"].success_points, 6) == 40.0
    assert (summary.episodes, summary.training_steps, summary.policy_version) == (32, 2, 2)
    assert summarise("run", "recipe", 1, metrics, None, None).gains == {}


def test_the_picture_is_drawn_for_one_environment_several_and_none(tmp_path: Path) -> None:
    rows = [step(0, alfworld=episodes(0.5, 0.5)), step(1, alfworld=episodes(0.6, 0.6), webshop=episodes(0.1, 0.4))]
    sizes = []
    for name, metrics, before, after in (
        ("both", rows, BEFORE, AFTER),
        ("one", rows[:1], report(0, alfworld=figures(0.3, 0.3)), None),
        ("none", [], None, None),
    ):
        out = tmp_path / f"{name}.png"
        plot_learning_curve(metrics, before, after, name, out)
        assert out.read_bytes().startswith(b"\x89PNG")
        sizes.append(out.stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]


def follow_two_steps() -> None:
    """Show a training of three steps, of which two are done and the last has begun."""
    bars = StepBars(steps=3, groups_per_step=4, done=0)
    for number in (0, 1):
        for _ in range(4):
            bars.show(Event(id="1-0", kind="group", time=0.0, payload={"step": number}))
        bars.show(
            Event(id="2-0", kind="step", time=0.0, payload=step(number, alfworld=episodes(0.25, 1.0)).model_dump())
        )
        bars.refresh()
    bars.close()


def test_in_a_log_a_training_is_a_line_for_each_step_that_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    follow_two_steps()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("step   1/3  success  25%")
    assert second.startswith("step   2/3  success  25%")


def test_on_a_terminal_a_bar_fills_with_the_groups_of_its_step() -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 160))
    code = "from tests.unit.test_training_reports import follow_two_steps; follow_two_steps()"
    repository = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], stderr=theirs, cwd=repository, timeout=120, check=True)
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    for part in (
        "step   1/3   0%",
        "step   1/3  25%",
        "step   1/3  75%",
        "step   2/3 100%",
        "success  25%",
        "step   3/3   0%",
    ):
        assert part in drawn
