"""GRPO, RLOO, GiGPO, PPO and GAGPO's additions in numbers worked out by hand (γ = ½ and λ = ½).

The three episodes of `test_gagpo_by_hand`:

    one:   a → b → won           rewards 0, 8        R = 8     G = 4, 8
    two:   a → c → b → won       rewards 0, 0, 8     R = 8     G = 2, 4, 8
    three: a → c → cut in b      rewards 0, 0        R = 0     G = 0, 0

Mean R = 16/3, and std R = √(((8/3)² + (8/3)² + (16/3)²) / 3) = (8/3)·√2.
"""

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from services.trainer.algorithms import CreditEpisode, CreditGroup, GroupCredit, algorithm_of, make_algorithm
from services.trainer.algorithms.base import LossKind
from shared.recipe import (
    AnyAlgorithm,
    GagpoSettings,
    GigpoSettings,
    GrpoSettings,
    Normalisation,
    PpoSettings,
    RlooSettings,
    Spread,
    load_recipe,
)
from tests.training import write_recipe

ONE = CreditEpisode([0, 8], ["a", "b"], "won", terminated=True, values=[3, 6])
TWO = CreditEpisode([0, 0, 8], ["a", "c", "b"], "won", terminated=True, values=[3, 2, 6])
THREE = CreditEpisode([0, 0], ["a", "c"], "b", terminated=False, values=[3, 2])
TREE = CreditGroup("task", [ONE, TWO, THREE])

MEAN_ONLY = Spread.MEAN_ONLY


def credit(settings: AnyAlgorithm, *groups: CreditGroup, min_std: float = 0.0) -> list[GroupCredit]:
    return algorithm_of(settings, min_std).credit(groups)


def group_of(*rewards: list[float], key: str = "a") -> CreditGroup:
    """Episodes that begin in one state and then go each its own way. A critic thinks nothing of them."""
    return CreditGroup(
        "task",
        [
            CreditEpisode(own, [key, *[f"{i} {t}" for t in range(1, len(own))]], "end", True, values=[0.0] * len(own))
            for i, own in enumerate(rewards)
        ],
    )


# GRPO


def test_grpo_gives_every_step_its_episodes_return_relative_to_the_group() -> None:
    (found,) = credit(GrpoSettings(), TREE)
    assert found.returns.tolist() == [8, 8, 8, 8, 8, 0, 0]
    assert found.values == pytest.approx(np.full(7, 16 / 3))
    assert found.raw == pytest.approx([8 / 3] * 5 + [-16 / 3] * 2)
    assert found.deltas.tolist() == found.raw.tolist()
    assert found.advantages == pytest.approx([1 / sqrt(2)] * 5 + [-sqrt(2)] * 2)
    assert found.lengths == (2, 3, 2)
    assert found.visits.tolist() == [3, 2, 3, 2, 2, 3, 2], "states are numbered for whoever looks at them"


def test_grpo_without_the_standard_deviation() -> None:
    (found,) = credit(GrpoSettings(spread=MEAN_ONLY), TREE)
    assert found.advantages == pytest.approx([8 / 3] * 5 + [-16 / 3] * 2)


def test_grpo_counts_episodes_alike_however_long_they_are() -> None:
    (found,) = credit(GrpoSettings(spread=MEAN_ONLY), group_of([4], [0, 0, 0, 0, 0]))
    assert found.advantages.tolist() == [2] + [-2] * 5


def test_grpo_sums_rewards_on_the_way_without_discount() -> None:
    (found,) = credit(GrpoSettings(), group_of([-1, 0, 4], [0, 1]))
    assert found.returns.tolist() == [3, 3, 3, 1, 1]
    assert found.advantages.tolist() == [1, 1, 1, -1, -1]


def test_an_episode_without_steps_counts_as_a_return_of_zero() -> None:
    group = CreditGroup("task", [CreditEpisode([6], ["a"], "end", True), CreditEpisode([], [], "a", False)])
    (found,) = credit(GrpoSettings(spread=MEAN_ONLY), group)
    assert found.advantages.tolist() == [3]
    assert found.lengths == (1, 0)
    (found,) = credit(RlooSettings(), group)
    assert found.advantages.tolist() == [6]


# RLOO


def test_rloo_compares_an_episode_with_the_mean_of_the_others() -> None:
    (found,) = credit(RlooSettings(), TREE)
    assert found.returns.tolist() == [8, 8, 8, 8, 8, 0, 0]
    assert found.values.tolist() == [4, 4, 4, 4, 4, 8, 8]  # (8 + 0) / 2 twice, then (8 + 8) / 2
    assert found.advantages.tolist() == found.raw.tolist() == found.deltas.tolist() == [4, 4, 4, 4, 4, -8, -8]


def test_rloo_gives_a_group_of_one_episode_nothing() -> None:
    (found,) = credit(RlooSettings(), group_of([0, 8]))
    assert found.values.tolist() == [8, 8]
    assert found.advantages.tolist() == [0, 0]


# GiGPO


def test_gigpo_adds_the_steps_place_among_those_from_the_same_state() -> None:
    # G − mean: in a 2, 0, −2 with std √(8/3); in c 2, −2 with std 2; in b 0, 0.
    in_a, won, lost = sqrt(3 / 2), 1 / sqrt(2), -sqrt(2)
    (found,) = credit(GigpoSettings(gamma=0.5), TREE)
    assert found.returns.tolist() == [4, 8, 2, 4, 8, 0, 0]
    assert found.values.tolist() == [2, 8, 2, 2, 8, 2, 2]
    assert found.deltas.tolist() == [2, 0, 0, 2, 0, -2, -2]
    assert found.advantages == pytest.approx([won + in_a, won, won, won + 1, won, lost - in_a, lost - 1])
    (found,) = credit(GigpoSettings(gamma=0.5, omega=0.5), TREE)
    assert found.advantages == pytest.approx([won + in_a / 2, won, won, won + 0.5, won, lost - in_a / 2, lost - 0.5])


def test_gigpo_without_the_standard_deviations() -> None:
    won, lost = 8 / 3, -16 / 3
    by_hand = [won + 2, won, won, won + 2, won, lost - 2, lost - 2]
    (found,) = credit(GigpoSettings(gamma=0.5, spread=MEAN_ONLY), TREE)
    assert found.advantages == pytest.approx(by_hand)
    assert found.raw == pytest.approx(by_hand)
    assert credit(GigpoSettings(gamma=0.5), TREE)[0].raw == pytest.approx(by_hand), "before any divisor"


def test_a_state_seen_once_adds_nothing_to_the_episodes_advantage() -> None:
    (found,) = credit(GigpoSettings(gamma=0.5), group_of([0, 8], [0, 0]))
    # From the shared state G = 4 and 0: ±1. The other two steps have nobody to be compared with.
    assert found.advantages.tolist() == [2, 1, -2, -1]


def test_gigpo_counts_every_visit_of_an_episode_to_a_state() -> None:
    # G = 2, 4 (twice in a) and 0: mean 2. R = 4, 0.
    group = CreditGroup(
        "task", [CreditEpisode([0, 4], ["a", "a"], "end", True), CreditEpisode([0], ["a"], "end", True)]
    )
    (found,) = credit(GigpoSettings(gamma=0.5, spread=MEAN_ONLY), group)
    assert found.advantages.tolist() == [2 + 0, 2 + 2, -2 - 2]


# PPO


def test_ppo_estimates_advantages_on_the_critics_values() -> None:
    (found,) = credit(PpoSettings(gamma=0.5, lam=0.5, normalisation=Normalisation.NONE), TREE)
    assert found.values.tolist() == [3, 6, 3, 2, 6, 3, 2]
    # one: ½·6 − 3, 8 − 6; two: ½·2 − 3, ½·6 − 2, 8 − 6; three: ½·2 − 3, 0 − 2, for after a cut the value is 0.
    assert found.deltas.tolist() == [0, 2, -2, 1, 2, -2, -2]
    # From the back with γλ = ¼.
    assert found.raw.tolist() == found.advantages.tolist() == [0.5, 2, -1.625, 1.5, 2, -2.5, -2]
    assert (found.raw + found.values).tolist() == [3.5, 8, 1.375, 3.5, 8, 0.5, 0], "the critic's targets"
    assert found.returns.tolist() == [4, 8, 2, 4, 8, 0, 0]


def test_ppo_normalises_over_the_batch_or_the_group() -> None:
    raw = np.array([0.5, 2, -1.625, 1.5, 2, -2.5, -2])  # sum −0.125, sum of squares 23.390625
    pair = group_of([3], [1])  # raw 3, 1 beside values of 0
    batch = credit(PpoSettings(gamma=0.5, lam=0.5), TREE, pair)
    mean = (4 - 0.125) / 9
    std = sqrt((23.390625 + 10) / 9 - mean**2)
    assert batch[0].advantages == pytest.approx((raw - mean) / std)
    assert batch[1].advantages == pytest.approx((np.array([3, 1]) - mean) / std)
    group = credit(PpoSettings(gamma=0.5, lam=0.5, normalisation=Normalisation.GROUP), TREE, pair)
    assert group[0].advantages == pytest.approx((raw + 0.125 / 7) / sqrt(23.390625 / 7 - (0.125 / 7) ** 2))
    assert group[1].advantages.tolist() == [1, -1]


def test_ppo_without_a_critics_values_says_what_is_missing() -> None:
    blind = CreditGroup("maze/7", [ONE, replace(TWO, values=())])
    with pytest.raises(ValueError, match=r"episode 1 of task 'maze/7' has 0 values for its 3 steps.*critic"):
        credit(PpoSettings(), blind)


# GAGPO's additions


def test_a_trajectory_term_is_added_to_gagpos_normalised_advantages() -> None:
    plain, added = (
        credit(GagpoSettings(gamma=0.5, lam=0.5, trajectory_weight=weight), TREE)[0] for weight in (0.0, 3.0)
    )
    by_hand = 3 * np.array([1 / sqrt(2)] * 5 + [-sqrt(2)] * 2)
    assert added.advantages - plain.advantages == pytest.approx(by_hand)
    assert added.raw.tolist() == plain.raw.tolist()


# All of them

BASELINES: list[AnyAlgorithm] = [
    GagpoSettings(),
    GagpoSettings(trajectory_weight=1.0),
    GigpoSettings(),
    GigpoSettings(spread=MEAN_ONLY),
    GrpoSettings(),
    GrpoSettings(spread=MEAN_ONLY),
    RlooSettings(),
    PpoSettings(),
    PpoSettings(normalisation=Normalisation.GROUP),
    PpoSettings(normalisation=Normalisation.NONE),
]


@pytest.mark.parametrize("settings", BASELINES, ids=lambda settings: settings.name)
def test_equal_episodes_give_exactly_zero_and_never_nan(settings: AnyAlgorithm) -> None:
    for reward in (0.0, 0.1, 7.3):
        alike = [CreditEpisode([0.1, reward], ["a", "b"], "end", True, values=[0.0, 0.0]) for _ in range(7)]
        (found,) = credit(settings, CreditGroup("task", alike))
        if settings.name != "ppo":  # its critic was wrong about all of them alike
            assert found.advantages.tolist() == [0.0] * 14
        assert np.isfinite(found.advantages).all()


@pytest.mark.parametrize("settings", [GrpoSettings(), GrpoSettings(spread=MEAN_ONLY), RlooSettings()])
def test_returns_that_differ_by_rounding_alone_count_as_equal(settings: AnyAlgorithm) -> None:
    """In floats 0.1 + 0.2 − 0.3 is 5.6e-17: divided by its own spread it would look like a success."""
    (found,) = credit(settings, group_of([0.1, 0.2, -0.3], [0.0, 0.0, 0.0]))
    assert not found.advantages.any()


@pytest.mark.parametrize("settings", BASELINES, ids=lambda settings: settings.name)
def test_one_step_episodes_are_compared_with_each_other(settings: AnyAlgorithm) -> None:
    raw = np.array([6.0, -2.0, -2.0, -2.0])  # R − mean; std √12
    (found,) = credit(settings, group_of([8.0], [0.0], [0.0], [0.0]))
    by_hand = {
        "gagpo": raw / sqrt(12),
        "gigpo": 2 * raw / sqrt(12),
        "grpo": raw / sqrt(12),
        "rloo": np.array([8, -8 / 3, -8 / 3, -8 / 3]),
        "ppo": raw / sqrt(12),
    }[settings.name]
    if getattr(settings, "spread", Spread.STD) is MEAN_ONLY:
        by_hand = by_hand * sqrt(12)
    if isinstance(settings, GagpoSettings) and settings.trajectory_weight:
        by_hand = 2 * by_hand
    if isinstance(settings, PpoSettings) and settings.normalisation is Normalisation.NONE:
        by_hand = np.array([8.0, 0, 0, 0])  # the critic's values are 0, and nothing is taken off
    assert found.advantages == pytest.approx(by_hand)


@pytest.mark.parametrize("settings", BASELINES, ids=lambda settings: settings.name)
def test_groups_and_episodes_without_steps_pass_through(settings: AnyAlgorithm) -> None:
    empty = CreditEpisode([], [], "a", terminated=False)
    assert credit(settings) == []
    assert len(credit(settings, CreditGroup("task", [empty]))[0].advantages) == 0
    none, some = credit(settings, CreditGroup("task", []), CreditGroup("task", [ONE, empty]))
    assert (none.lengths, some.lengths) == ((), (2, 0))


@pytest.mark.parametrize(
    "settings",
    [GrpoSettings(), GigpoSettings(), PpoSettings(normalisation=Normalisation.GROUP)],
    ids=lambda settings: settings.name,
)
def test_penalties_of_an_all_fail_group_are_not_blown_up_to_a_success(settings: AnyAlgorithm) -> None:
    failed = group_of([0, 0, 0], [0, -0.1, 0], [-0.1, -0.1, 0])
    (bare,) = credit(settings, failed)
    (floored,) = credit(settings, failed, min_std=0.5)
    (small,) = credit(settings, replace(failed, scale=0.02), min_std=0.5)
    assert np.abs(bare.advantages).max() > 1, "without the floor a penalty looks like a success"
    assert np.abs(floored.advantages).max() < 0.5
    assert small.advantages.tolist() == bare.advantages.tolist(), "where a success is worth 0.2 the floor is 0.01"


def test_a_recipe_names_its_algorithm(tmp_path: Path) -> None:
    recipe = load_recipe(write_recipe(tmp_path))
    for settings in BASELINES:
        named = recipe.model_copy(update={"algorithm": settings})
        algorithm = make_algorithm(named)
        assert type(algorithm).__name__.lower() == settings.name
        assert algorithm.loss == LossKind.of(settings)
        (found,) = algorithm.credit([TREE])
        (expected,) = credit(settings, TREE, min_std=named.min_std)
        assert found.advantages.tolist() == expected.advantages.tolist()
