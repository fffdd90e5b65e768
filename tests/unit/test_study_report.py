"""A study's report: every number against what comes out by hand from made-up metrics."""

import csv
import json
from pathlib import Path

import pytest

from gagpo.comparing.export import export_study
from gagpo.comparing.figures import Scale, early_area, late_success, steps_to_threshold
from gagpo.comparing.numbers import BaseNumbers, StudyNumbers, VariantNumbers
from gagpo.comparing.planning import PlannedRun, StudyFolder, claim, plan_runs
from gagpo.comparing.report import write_report
from gagpo.comparing.run_data import RunData, StepRecord, read_steps
from gagpo.comparing.run_record import add_attempt
from gagpo.comparing.running import share_done
from gagpo.comparing.statistics import estimate, paired_difference
from gagpo.comparing.study import Study, load_study
from shared.schemas.evaluation import EnvironmentFigures, EvaluationReport, Interval, StepsToOptimum

STUDY = """
name = "made-up"
seeds = [1, 2, 3]
threshold = 0.6
early_share = 0.5
[budget]
environment_steps = 400
[[bases]]
name = "maze"
recipe = "recipe.toml"
[[variants]]
name = "gagpo"
label = "GAGPO"
[[variants]]
name = "grpo"
label = "GRPO"
algorithm = { name = "grpo" }
[[variants]]
name = "td"
label = "one step"
family = "ablation"
algorithm = { name = "gagpo", lam = 0.0 }
"""
RECIPE = 'name = "maze"\n[model]\npath = "small"\n[[environments]]\nname = "maze"\n'

RISING = (0.2, 0.4, 0.6, 0.8)
FLAT = (0.2, 0.2, 0.2, 0.2)


def step(number: int, success: float) -> dict[str, object]:
    """A training step of 100 environment steps, with a gradient norm of 1, 3, 1, 3, …"""
    episodes = {
        "success_rate": success,
        "mean_score": success,
        "mean_episode_length": 10.0,
        "mean_reward": 10 * success,
        "episodes": 10,
    }
    return {
        **episodes,
        "environments": {"maze": episodes},
        "step": number,
        "version": number + 1,
        "environment_steps": 100,
        "environment_steps_total": 100 * (number + 1),
        "kl_reference": 0.0,
        "kl_old_new": 0.001 * number,
        "clip_fraction": 0.1,
        "entropy": 1.0 - 0.1 * number,
        "grad_norm": 3.0 if number % 2 else 1.0,
        "advantage_iqr": 1.2,
        "advantage_beyond_one": 0.25,
        "sibling_share": 0.5,
        "hidden_state_share": 0.75,
        "true_state_known": 0.0,
        "staleness_mean": 0.0,
        "tokens_generated": 1000,
        "tokens_per_s_generated": 100.0,
        "seconds_total": 2.0,
    }


def held_out(success: float, version: int) -> EvaluationReport:
    figures = EnvironmentFigures(
        split="valid",
        episodes=100,
        won=round(100 * success),
        success_rate=success,
        success_interval=Interval(low=0.0, high=1.0),
        mean_score=success,
        score_interval=None,
        mean_steps=9.0,
        mean_steps_won=6.0,
        optimum=StepsToOptimum(episodes=50, mean_ratio=1.5, interval=None, optimal_share=0.2),
        invalid_action_rate=0.0,
        tokens=1,
        task_types={},
    )
    return EvaluationReport(
        **figures.model_dump(exclude={"split"}),
        environments={"maze": figures},
        seed=1,
        temperature=1.0,
        policy_version=version,
        policy_version_last=version,
        seconds=1.0,
        results=[],
    )


def make(run: PlannedRun, folder: StudyFolder, rates: tuple[float, ...], after: float) -> None:
    """A complete run with these training successes and this held-out success."""
    claim(run, folder)
    lines = [json.dumps(step(number, rate)) + "\n" for number, rate in enumerate(rates)]
    run.folder.metrics.write_text("".join(lines))
    run.folder.before.write_text(held_out(0.1, 0).model_dump_json())
    run.folder.after.write_text(held_out(after, len(rates)).model_dump_json())
    run.folder.summary.write_text("{}")
    add_attempt(run.folder, 30.0, None)


def planned(folder: Path) -> tuple[Study, list[PlannedRun], StudyFolder]:
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "study.toml").write_text(STUDY)
    study, place = load_study(folder / "study.toml"), StudyFolder(folder / "out")
    return study, plan_runs(study, place), place


@pytest.fixture
def base(tmp_path: Path) -> BaseNumbers:
    """GAGPO with all seeds, GRPO with two of which one never got to the threshold, and one that failed."""
    study, runs, folder = planned(tmp_path)
    named = {run.name: run for run in runs}
    for seed, after in ((1, 0.5), (2, 0.6), (3, 0.7)):
        make(named[f"maze-gagpo-s{seed}"], folder, RISING, after)
    make(named["maze-grpo-s1"], folder, RISING, 0.4)
    make(named["maze-grpo-s2"], folder, FLAT, 0.3)
    claim(named["maze-grpo-s3"], folder)
    add_attempt(named["maze-grpo-s3"].folder, 3.0, "trainer ended with exit code 1\nand more")
    [numbers] = StudyNumbers.gather(study, runs).bases
    return numbers


def variant(base: BaseNumbers, name: str) -> VariantNumbers:
    return next(one for one in base.variants if one.name == name)


def run_of(*rates: float) -> RunData:
    steps = [StepRecord.model_validate(step(number, rate)) for number, rate in enumerate(rates)]
    return RunData("run", 1, steps, None, None, 0.0)


def test_the_interval_is_students() -> None:
    found = estimate({"a": 1.0, "b": 2.0, "c": 3.0})
    assert found is not None
    # s = 1, t(2; 97.5%) = 4.302653, and 4.302653 / √3 = 2.484138
    assert (found.mean, found.low, found.high, found.n) == (2.0, pytest.approx(-0.484138), pytest.approx(4.484138), 3)
    assert estimate({}) is None
    alone = estimate({"a": 5.0})
    assert alone is not None
    assert (alone.mean, alone.low, alone.half_width, alone.differs_from_zero) == (5.0, None, None, False)


def test_differences_are_taken_seed_by_seed() -> None:
    found = paired_difference({1: 5.0, 2: 7.0, 4: 0.0}, {1: 4.0, 2: 5.0, 3: 9.0})
    assert found is not None
    assert found.values == {"seed 1": 1.0, "seed 2": 2.0}
    # s = √½, t(1) = 12.7062, and 12.7062 · √½ / √2 = 6.3531
    assert (found.mean, found.half_width) == (1.5, pytest.approx(6.3531, abs=1e-4))


@pytest.mark.parametrize(
    ("end", "area"),
    [
        (200, 0.4),  # (30 + 50) / 200
        (250, 0.45),  # half of the next step: 0.6 to 0.7, so (30 + 50 + 32.5) / 250
        (400, 0.575),  # the last policy that played had learnt from 300: level from there, (30 + 50 + 70 + 80) / 400
    ],
)
def test_the_early_area_is_the_curves_over_its_width(end: float, area: float) -> None:
    assert early_area(run_of(*RISING), Scale(0.6, end)) == pytest.approx(area)


def test_late_success_is_the_last_quarters() -> None:
    assert late_success(run_of(*[0.0] * 12, 0.1, 0.2, 0.3, 0.4), Scale(0.6, 1)) == pytest.approx(0.25)
    assert late_success(run_of(0.0, 0.1, 0.2, 0.6), Scale(0.6, 1)) == pytest.approx(0.3), (
        "three training steps at least"
    )
    assert late_success(run_of(), Scale(0.6, 1)) is None


def test_the_threshold_is_reached_by_the_mean_of_three_steps() -> None:
    assert steps_to_threshold(run_of(0.2, 0.4, 0.6, 0.8), Scale(0.6, 1)) == 300, "(0.4 + 0.6 + 0.8) / 3"
    assert steps_to_threshold(run_of(0.9, 0.9), Scale(0.6, 1)) is None, "two are not enough"
    assert steps_to_threshold(run_of(*FLAT), Scale(0.6, 1)) is None


def test_a_variants_figures_are_means_over_its_runs(base: BaseNumbers) -> None:
    gagpo = variant(base, "gagpo")
    assert gagpo.runs == ["maze-gagpo-s1", "maze-gagpo-s2", "maze-gagpo-s3"]
    end = gagpo.figures["held_out_success"]
    assert end.values == {"maze-gagpo-s1": 0.5, "maze-gagpo-s2": 0.6, "maze-gagpo-s3": 0.7}
    assert (end.mean, end.half_width) == (pytest.approx(0.6), pytest.approx(0.248414, abs=1e-6))
    means = {key: found.mean for key, found in gagpo.figures.items()}
    assert means == pytest.approx(
        {
            "held_out_success": 0.6,
            "early_area": 0.4,
            "late_success": 0.6,
            "steps_to_threshold": 300.0,
            "won_length": 6.0,
            "length_over_optimum": 1.5,
            "grad_norm": 2.0,
            "grad_norm_spread": 0.5,
            "kl_old_new": 0.0015,
            "kl_largest": 0.003,
            "clip_fraction": 0.1,
            "entropy": 0.8,
            "advantage_iqr": 1.2,
            "advantage_beyond_one": 0.25,
            "sibling_share": 0.5,
            "environment_steps": 400.0,
            "training_steps": 4.0,
            "seconds_training": 8.0,
            "seconds_run": 30.0,
        }
    ), "and no score where it tells nothing, nor hidden states where the true ones are not known"


def test_differences_leave_out_what_a_run_has_not(base: BaseNumbers) -> None:
    grpo = variant(base, "grpo")
    assert grpo.figures["steps_to_threshold"].values == {"maze-grpo-s1": 300.0}
    assert "steps_to_threshold" not in grpo.differences, "the other run never got there"
    assert grpo.differences["held_out_success"].values == pytest.approx({"seed 1": -0.1, "seed 2": -0.3})
    assert variant(base, "gagpo").differences == {}


def test_curves_are_means_of_smoothed_curves_on_one_grid(base: BaseNumbers) -> None:
    curve = variant(base, "grpo").curves["success"]
    assert curve.runs == ["maze-grpo-s1", "maze-grpo-s2"]
    assert (curve.environment_steps[0], curve.environment_steps[-1]) == (0.0, 300.0)
    assert curve.mean[0] == pytest.approx(0.2)
    assert curve.mean[-1] == pytest.approx((0.6 + 0.2) / 2), "the last of the rising ones is (0.4 + 0.6 + 0.8) / 3"
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((0.2, 0.6)), "from the lowest seed to the highest"
    assert "hidden_state_share" not in variant(base, "grpo").curves


def test_runs_that_are_not_there_are_named_with_their_reason(base: BaseNumbers) -> None:
    missing = {one.run: (one.state.value, one.reason) for one in base.missing}
    assert missing == {
        "maze-grpo-s3": ("failed", "trainer ended with exit code 1\nand more"),
        **{f"maze-td-s{seed}": ("new", None) for seed in (1, 2, 3)},
    }


def test_the_report_has_tables_pictures_and_links_to_runs(tmp_path: Path) -> None:
    study, runs, folder = planned(tmp_path)
    for run in runs:
        if run.variant != "grpo" or run.seed == 1:
            make(run, folder, RISING if run.variant == "gagpo" else FLAT, 0.5 + 0.1 * run.seed)
    claim(runs[-2], folder)
    add_attempt(runs[-2].folder, 1.0, "trainer ended with exit code 1; the end of trainer.log:\n  Traceback")
    text = write_report(study, runs, folder).read_text()
    links = "[s1](../runs/maze-gagpo-s1) [s2](../runs/maze-gagpo-s2) [s3](../runs/maze-gagpo-s3)"
    success = "70.0% ± 24.8% | 40.0% ± 0.0% | 60.0% ± 0.0%"
    assert f"| GAGPO | 3: {links} | {success} | 300 ± 0 | 6.00 ± 0.00 | 1.50 ± 0.00 |" in text
    assert (
        "| GRPO | 1: [s1](../runs/maze-grpo-s1) | 60.0% | 20.0% | 20.0% | not reached (0 of 1) | 6.00 | 1.50 |" in text
    )
    assert text.index("### Methods, maze") < text.index("### Ablations, maze")
    assert "**−20.0 ± 0.0**" in text, "the ablation's early area less GAGPO's"
    assert "- `maze-grpo-s2` is new\n" in text
    why = "trainer ended with exit code 1 ([all of it](../runs/maze-grpo-s3/attempts.json))"
    assert f"- `maze-grpo-s3` is failed: {why}\n" in text
    for name in ("maze-methods-learning", "maze-methods-course", "maze-ablations-learning", "maze-ablations-course"):
        assert f"({name}.png)" in text
        assert (folder.report / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    numbers = StudyNumbers.model_validate_json((folder.report / "numbers.json").read_bytes())
    named = {run for base in numbers.bases for variant in base.variants for run in variant.runs}
    assert all((folder.runs / run / "metrics.jsonl").exists() for run in named)


def test_an_export_has_the_report_and_every_complete_runs_numbers(tmp_path: Path) -> None:
    study, runs, folder = planned(tmp_path)
    for run in runs[:2]:
        make(run, folder, RISING, after=0.75)
    write_report(study, runs, folder)
    out = tmp_path / "kept"
    assert export_study(tmp_path / "study.toml", runs, folder, out) == 2
    assert load_study(out / "study.toml").name == "made-up"
    for run in runs[:2]:
        link = f"../runs/{run.name}"
        assert link in (out / "report" / "report.md").read_text()
        with (out / "report" / link / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert [float(row["success_rate"]) for row in rows] == list(RISING)
        assert not any(name.startswith("environments/") for name in rows[0])
    assert not (out / "runs" / runs[2].name).exists()


def test_a_report_of_nothing_says_what_is_missing(tmp_path: Path) -> None:
    study, runs, folder = planned(tmp_path)
    text = write_report(study, runs, folder).read_text()
    assert text.count(" is new") == 9
    assert "### Methods" not in text


def test_how_far_a_run_is_goes_by_its_budget(tmp_path: Path) -> None:
    _, [run, *_], folder = planned(tmp_path)
    claim(run, folder)
    assert share_done(run) == 0
    run.folder.metrics.write_text("".join(json.dumps(step(number, 0.5)) + "\n" for number in range(3)))
    assert share_done(run) == 0.75, "300 of 400 environment steps"


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(json.dumps(step(0, 0.5)) + "\n" + json.dumps(step(1, 0.5))[:40])
    assert [one.step for one in read_steps(file)] == [0]
    assert read_steps(tmp_path / "none") == []
