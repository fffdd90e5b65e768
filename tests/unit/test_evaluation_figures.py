"""The figures of a report, by hand."""

import pytest

from shared.intervals import mean_interval, pass_at_k, rate_interval, wilson_interval
from shared.trajectory import EpisodeEnd
from tests.evaluations import report, result, spec

FOUR_TASKS = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
"""Deviations from ½ sum to 1, 0, −1 and 0: the mean's variance is 4/3 · 2 / 8² = 1/24."""


def test_a_rate_over_clusters_is_wilsons_at_the_effective_size() -> None:
    # ½ · ½ / (1/24) = 6 independent episodes would vary as much as these 8.
    assert rate_interval(FOUR_TASKS) == wilson_interval(3, 6)


def test_a_rate_over_single_episodes_is_wilsons_own() -> None:
    assert rate_interval([[1.0]] * 81 + [[0.0]] * 182) == wilson_interval(81, 263)


def test_episodes_that_only_repeat_their_task_count_once() -> None:
    assert rate_interval([[1.0] * 8] * 3 + [[0.0] * 8] * 7) == wilson_interval(3, 10)
    assert rate_interval([[1.0] * 8] * 10) == wilson_interval(10, 10)


def test_tasks_that_do_not_differ_leave_every_episode_its_weight() -> None:
    assert rate_interval([[1.0, 0.0]] * 10) == wilson_interval(10, 20)


def test_the_interval_of_a_mean_over_clusters() -> None:
    interval = mean_interval(FOUR_TASKS)
    assert interval is not None
    half = 1.959964 * (1 / 24) ** 0.5
    assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


@pytest.mark.parametrize(
    ("episodes", "won", "k", "chance"),
    [
        (4, 1, 2, 0.5),  # 3 of the 6 pairs hold the win
        (5, 2, 3, 0.9),  # 9 of the 10 triples
        (4, 1, 1, 0.25),
        (4, 0, 4, 0.0),
        (4, 4, 1, 1.0),
        (4, 1, 4, 1.0),
    ],
)
def test_pass_at_k_counts_the_draws_that_hold_a_win(episodes: int, won: int, k: int, chance: float) -> None:
    assert pass_at_k(episodes, won, k) == pytest.approx(chance)


def test_a_report_by_hand() -> None:
    made = report(
        [
            result("t1", True, sample=0, steps=4, optimal=4),
            result("t1", False, sample=1, steps=12, optimal=4, end=EpisodeEnd.STEP_LIMIT),
            result("t2", True, sample=0, steps=6, optimal=4, kind="b"),
            result("t2", True, sample=1, steps=10, optimal=None, kind="b"),
        ]
    )
    figures = made.environments["maze"]
    assert (figures.episodes, figures.tasks, figures.won, figures.success_rate, figures.failed) == (4, 2, 3, 0.75, 0)
    assert {k: chance.rate for k, chance in figures.pass_at.items()} == pytest.approx({1: 0.75, 2: 1.0})
    assert figures.pass_at[1].interval == figures.success_interval
    assert figures.mean_steps == 8.0
    assert figures.mean_steps_won == pytest.approx(20 / 3)
    assert figures.optimum is not None
    assert (figures.optimum.episodes, figures.optimum.mean_ratio, figures.optimum.optimal_share) == (2, 1.25, 0.5)
    assert figures.invalid_action_rate == 4 / 32
    assert figures.truncated_rate == 0.25
    assert (figures.tokens, figures.prompt_tokens) == (40, 400)
    kinds = figures.task_types
    assert (kinds["a"].success_rate, kinds["b"].success_rate, kinds["b"].mean_steps) == (0.5, 1.0, 8.0)
    assert kinds["a"].success_interval == wilson_interval(0.5, 1)


def test_episodes_that_are_missing_are_counted_and_left_out() -> None:
    made = report([result("t1", True)], spec(tasks=3))
    assert (made.failed, made.success_rate) == (2, 1.0)


def test_a_task_with_fewer_episodes_than_k_is_left_out_of_pass_at_k() -> None:
    results = [result("t1", False), result("t1", True, sample=1), result("t2", False)]
    chances = report(results, spec(tasks=2, samples=2)).pass_at
    assert {k: chance.rate for k, chance in chances.items()} == {1: 0.25, 2: 1.0}
