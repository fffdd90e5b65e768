"""Two reports compared, by hand."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gagpo.cli import app
from gagpo.evaluating.diff import compare_reports
from gagpo.evaluating.diff_text import diff_markdown
from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.paired import bootstrap_interval, success_test, value_test
from shared.schemas.evaluation import EpisodeReport
from tests.evaluations import report, result, saved, spec

EIGHT_BETTER_ONE_WORSE = [(0.0, 1.0)] * 8 + [(1.0, 0.0)] + [(1.0, 1.0)] * 5


def test_mcnemars_test_is_exact() -> None:
    found = success_test(EIGHT_BETTER_ONE_WORSE)
    # Of 9 flips at most 1 goes the rarer way: 2 · (1 + 9) / 2⁹.
    assert found.p == pytest.approx(20 / 512)
    assert (found.better, found.worse) == (8, 1)
    assert success_test([(1.0, 1.0)] * 4).p == 1.0


def test_the_sign_flip_test_tries_every_assignment_of_few_pairs() -> None:
    # All 8 assignments of signs to ½, ½ and ¼: the sum is as far from zero as it was in 2 of them.
    assert value_test([(0.0, 0.5), (0.5, 1.0), (0.25, 0.5), (1.0, 1.0)]).p == pytest.approx(0.25)
    # ½, −½, ¼: |sum| ≥ ¼ whatever the signs are.
    assert value_test([(0.0, 0.5), (0.5, 0.0), (0.25, 0.5)]).p == 1.0
    assert value_test([(0.5, 0.5)] * 3).p == 1.0


def test_for_single_episodes_the_two_tests_agree() -> None:
    assert value_test(EIGHT_BETTER_ONE_WORSE).p == pytest.approx(success_test(EIGHT_BETTER_ONE_WORSE).p)


def test_the_bootstrap_is_near_the_normal_interval_and_always_the_same() -> None:
    pairs = [(0.0, 1.0)] * 60 + [(1.0, 0.0)] * 20 + [(1.0, 1.0)] * 120
    interval = bootstrap_interval(pairs)
    # Mean 0.2, standard deviation √(0.4 − 0.04) = 0.6, over 200 tasks.
    half = 1.96 * 0.6 / 200**0.5
    assert (interval.low, interval.high) == pytest.approx((0.2 - half, 0.2 + half), abs=0.01)
    assert interval == bootstrap_interval(pairs)


def results(won: list[bool]) -> list[EpisodeReport]:
    return [result(f"t{place}", one, kind="ab"[place % 2]) for place, one in enumerate(won)]


def test_a_comparison_by_hand() -> None:
    diff = compare_reports(report(results([True, False, False, True])), report(results([True, True, True, False])))
    whole = diff.environments["maze"]
    assert (whole.tasks, whole.success.one, whole.success.other, whole.success.difference) == (4, 0.5, 0.75, 0.25)
    assert (whole.success.test.better, whole.success.test.worse, whole.success.test.p) == (2, 1, 1.0)
    assert whole.score is None
    kinds = diff.task_types["maze"]
    assert (kinds["a"].success.difference, kinds["b"].success.difference) == (0.5, 0.0)
    assert [(flip.task_id, flip.one, flip.other) for flip in diff.flips] == [("t1", 0, 1), ("t2", 0, 1), ("t3", 1, 0)]
    assert diff.conditions == {}
    assert "| all | 4 | success | 50.0% | 75.0% | +25.0 |" in diff_markdown(diff)


def test_several_episodes_of_a_task_are_one_pair() -> None:
    one = [result("t1", won, sample=sample) for sample, won in enumerate([True, False])]
    other = [result("t1", True, sample=sample, score=0.5) for sample in range(2)]
    whole = compare_reports(report(one), report(other)).environments["maze"]
    assert (whole.tasks, whole.success.difference) == (1, 0.5)
    assert whole.score is not None
    assert whole.score.difference == 0.0


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (spec(split="train"), "split of maze is valid and train"),
        (spec(seed=2), "seed is 1 and 2"),
        (spec(), "tasks: 2 and 2, 2 of them in one report only"),
    ],
)
def test_reports_on_different_tasks_are_refused_with_the_field_and_the_remedy(changed: object, named: str) -> None:
    one = report([result("t1", True), result("t2", True)])
    other = report([result("t1", False), result("t3", True)], changed)  # type: ignore[arg-type]
    with pytest.raises(EvaluationError, match=f"{named}.*--common-only"):
        compare_reports(one, other)
    common = compare_reports(one, other, common_only=True)
    assert (common.environments["maze"].tasks, common.left_out) == (1, 2)


def test_equal_ids_of_other_data_are_never_compared() -> None:
    one, other = report([result("t1", True)]), report([result("t1", True)], spec(tasks=1, data_digest="e" * 64))
    with pytest.raises(EvaluationError, match="data_digest of maze differs"):
        compare_reports(one, other, common_only=True)


def test_other_conditions_are_told() -> None:
    one, other = report([result("t1", True)]), report([result("t1", True)], spec(tasks=1, max_steps=30))
    assert compare_reports(one, other).conditions == {"environments.0.settings.max_steps": ("12", "30")}


def test_the_command_prints_and_writes_the_comparison(tmp_path: Path) -> None:
    one = saved(report(results([True, False])), tmp_path / "one")
    other = saved(report(results([True, True])), tmp_path / "other")
    done = CliRunner().invoke(app, ["eval", "diff", str(one), str(other), "--out", str(tmp_path / "diff")])
    assert done.exit_code == 0, done.output
    assert "+50.0" in done.output
    assert (tmp_path / "diff" / "diff.json").exists()
    assert "t1" in (tmp_path / "diff" / "diff.md").read_text()


def test_the_command_says_where_there_is_no_report(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["eval", "diff", str(tmp_path), str(tmp_path)])
    assert done.exit_code == 1
