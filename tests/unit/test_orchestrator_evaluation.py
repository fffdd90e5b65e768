"""The arithmetic of an evaluation."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.episode import TurnSeeds
from shared.intervals import mean_interval, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # the worked example of R. G. Newcombe (1998), without continuity correction
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_has_the_published_values(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson_interval(successes, trials)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 5000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_interval_holds_the_share_and_its_ends_solve_the_score_equation(counts: tuple[int, int]) -> None:
    successes, trials = counts
    share, interval = successes / trials, wilson_interval(successes, trials)
    assert 0.0 <= interval.low <= share <= interval.high <= 1.0
    for end in (interval.low, interval.high):
        distance = abs(share - end) / math.sqrt(max(end * (1 - end), 1e-300) / trials)
        if 1e-9 < end < 1 - 1e-9:
            assert distance == pytest.approx(1.959964, rel=1e-4)


def test_sampling_seeds_are_repeatable_and_apart() -> None:
    seeds = {TurnSeeds(seed, episode).at(turn) for seed in (0, 1) for episode in range(20) for turn in range(50)}
    assert len(seeds) == 2000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert TurnSeeds(0, 1, 2).at(3) != TurnSeeds(0, 2, 1).at(3)
    assert TurnSeeds(3, 4).at(5) == TurnSeeds(3, 4).at(5)
    TurnSeeds(-1, 0).at(0)


def alone(values: list[float]) -> list[list[float]]:
    return [[value] for value in values]


def test_the_interval_of_a_mean_is_the_normal_one_and_stays_among_the_values() -> None:
    interval = mean_interval(alone([0.0, 1.0] * 50))
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.5 - 0.0985, 0.5 + 0.0985), abs=1e-4)
    narrow = mean_interval(alone([1.0, 1.0, 0.0]))
    assert narrow is not None
    assert narrow.high == 1.0
    assert mean_interval([[0.3, 0.5]]) is None
