"""What must hold of every algorithm whatever the episodes are, and how the algorithms follow from one another."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from services.trainer.algorithms import CreditEpisode, CreditGroup, GroupCredit, algorithm_of
from shared.recipe import (
    AdvantageKind,
    AnyAlgorithm,
    GagpoSettings,
    GigpoSettings,
    GrpoSettings,
    Normalisation,
    PpoSettings,
    RlooSettings,
    Spread,
    ValuePool,
    Visits,
)

SIZES = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 3))
SEEN = {key: f"you are in room {key} of the house" for key in "abcde"}
DISCOUNTS = st.sampled_from([0.5, 0.95, 1.0])
LAMBDAS = st.sampled_from([0.0, 0.8, 1.0])
SIMILARITIES = st.sampled_from([None, None, 0.3, 0.99])


@st.composite
def episodes(draw: st.DrawFn) -> CreditEpisode:
    rewards = draw(st.lists(SIZES, max_size=6))
    keys = draw(st.lists(st.sampled_from("abcd"), min_size=len(rewards), max_size=len(rewards)))
    final = draw(st.sampled_from("abcde"))
    return CreditEpisode(
        rewards=rewards,
        state_keys=keys,
        final_state_key=final,
        terminated=draw(st.booleans()),
        observations=[SEEN[key] for key in keys],
        final_observation=SEEN[final],
        values=draw(st.lists(SIZES, min_size=len(rewards), max_size=len(rewards))),
    )


GROUPS = st.lists(episodes(), min_size=1, max_size=5).map(lambda found: CreditGroup("task", found))
GAGPO = st.builds(
    GagpoSettings,
    gamma=DISCOUNTS,
    lam=LAMBDAS,
    advantage=st.sampled_from(AdvantageKind),
    value_pool=st.sampled_from(ValuePool),
    visits=st.sampled_from(Visits),
    leave_one_out=st.booleans(),
    bootstrap_truncated=st.booleans(),
    normalisation=st.sampled_from([Normalisation.GROUP, Normalisation.STATE, Normalisation.NONE]),
    spread=st.sampled_from(Spread),
    similarity=SIMILARITIES,
    trajectory_weight=st.sampled_from([0.0, 0.5]),
)
GIGPO = st.builds(
    GigpoSettings,
    gamma=DISCOUNTS,
    omega=st.sampled_from([0.0, 0.5, 1.0]),
    spread=st.sampled_from(Spread),
    similarity=SIMILARITIES,
)
GRPO = st.builds(GrpoSettings, spread=st.sampled_from(Spread))
PPO = st.builds(
    PpoSettings,
    gamma=DISCOUNTS,
    lam=LAMBDAS,
    normalisation=st.sampled_from([Normalisation.GROUP, Normalisation.NONE]),
)
ALGORITHMS: list[st.SearchStrategy[AnyAlgorithm]] = [GAGPO, GIGPO, GRPO, st.just(RlooSettings()), PPO]
quick = hypothesis_settings(max_examples=25, deadline=None)  # a busy machine is no fault of the code
every_algorithm = pytest.mark.parametrize("algorithms", ALGORITHMS, ids=["gagpo", "gigpo", "grpo", "rloo", "ppo"])


def credit(settings: AnyAlgorithm, *groups: CreditGroup, min_std: float = 0.1) -> list[GroupCredit]:
    return algorithm_of(settings, min_std).credit(groups)


def scaled(episode: CreditEpisode, factor: float) -> CreditEpisode:
    return replace(
        episode, rewards=[factor * r for r in episode.rewards], values=[factor * value for value in episode.values]
    )


def is_divided(settings: AnyAlgorithm) -> bool:
    """Whether advantages are normalised, and so without a unit."""
    if isinstance(settings, RlooSettings) or getattr(settings, "spread", Spread.STD) is Spread.MEAN_ONLY:
        return False
    return getattr(settings, "normalisation", Normalisation.GROUP) is not Normalisation.NONE


@every_algorithm
@quick
@given(st.data(), GROUPS, st.randoms(use_true_random=False))
def test_permuting_episodes_permutes_their_advantages(
    algorithms: st.SearchStrategy[AnyAlgorithm], data: st.DataObject, group: CreditGroup, random: object
) -> None:
    settings = data.draw(algorithms)
    order = list(range(len(group.episodes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    before = credit(settings, group)[0].by_episode()
    after = credit(settings, replace(group, episodes=[group.episodes[i] for i in order]))[0].by_episode()
    for place, i in enumerate(order):
        assert after[place] == pytest.approx(before[i], abs=1e-9)


@every_algorithm
@quick
@given(st.data(), GROUPS, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_rewards_and_the_floor_leaves_normalised_advantages(
    algorithms: st.SearchStrategy[AnyAlgorithm], data: st.DataObject, group: CreditGroup, factor: float
) -> None:
    settings = data.draw(algorithms)
    if isinstance(settings, GagpoSettings) and not is_divided(settings) and settings.spread is Spread.STD:
        settings = settings.model_copy(update={"trajectory_weight": 0.0})  # which is normalised by itself
    larger = replace(group, episodes=[scaled(episode, factor) for episode in group.episodes])
    (before,) = credit(settings, group)
    unit = 1.0 if is_divided(settings) else factor
    for after in (
        credit(settings, larger, min_std=0.1 * factor)[0],
        credit(settings, replace(larger, scale=factor))[0],
    ):
        assert after.advantages == pytest.approx(before.advantages * unit, abs=1e-9 * max(unit, 1.0))
        assert after.raw == pytest.approx(before.raw * factor, abs=1e-9 * factor)


@every_algorithm
@quick
@given(st.data(), GROUPS, GROUPS, st.booleans())
def test_an_unrelated_group_changes_nothing(
    algorithms: st.SearchStrategy[AnyAlgorithm],
    data: st.DataObject,
    group: CreditGroup,
    stranger: CreditGroup,
    first: bool,
) -> None:
    settings = data.draw(algorithms)
    other = replace(stranger, task="another task")
    alone = credit(settings, group)[0]
    together = credit(settings, other, group)[1] if first else credit(settings, group, other)[0]
    for name in ("returns", "values", "deltas", "raw", "advantages", "visits", "has_sibling"):
        assert getattr(together, name).tolist() == getattr(alone, name).tolist()


@every_algorithm
@quick
@given(st.data(), GROUPS, st.sampled_from([0.0, 0.1]))
def test_advantages_are_finite_one_for_each_step(
    algorithms: st.SearchStrategy[AnyAlgorithm], data: st.DataObject, group: CreditGroup, floor: float
) -> None:
    (found,) = credit(data.draw(algorithms), group, min_std=floor)
    assert [len(own) for own in found.by_episode()] == [len(episode.rewards) for episode in group.episodes]
    assert np.isfinite(found.advantages).all()


# How they follow from one another


def steps_of(credit: GroupCredit, per_episode: list[float]) -> np.ndarray:
    return np.repeat(per_episode, credit.lengths)


@quick
@given(GROUPS)
def test_grpos_advantages_are_centred_over_episodes_and_of_spread_one(group: CreditGroup) -> None:
    (found,) = credit(GrpoSettings(), group, min_std=0.0)
    returns = np.array([sum(episode.rewards) for episode in group.episodes])
    if returns.std() > 1e-9:
        assert found.advantages == pytest.approx(
            steps_of(found, ((returns - returns.mean()) / returns.std()).tolist()), abs=1e-9
        )
    else:
        assert not found.advantages.any()


@quick
@given(GROUPS)
def test_rloo_is_grpo_without_the_spread_times_n_over_n_minus_one(group: CreditGroup) -> None:
    n = len(group.episodes)
    (rloo,) = credit(RlooSettings(), group)
    (grpo,) = credit(GrpoSettings(spread=Spread.MEAN_ONLY), group)
    assert rloo.advantages * (n - 1) == pytest.approx(grpo.advantages * n, abs=1e-9)


@quick
@given(GROUPS, GIGPO)
def test_gigpo_is_grpo_without_step_advantages_and_where_no_state_repeats(
    group: CreditGroup, settings: GigpoSettings
) -> None:
    grpo = credit(GrpoSettings(spread=settings.spread), group)[0].advantages.tolist()
    assert credit(settings.model_copy(update={"omega": 0.0}), group)[0].advantages.tolist() == grpo
    lonely = [
        replace(episode, state_keys=[f"{number} {t}" for t in range(len(episode.rewards))])
        for number, episode in enumerate(group.episodes)
    ]
    exact = settings.model_copy(update={"similarity": None})
    assert credit(exact, replace(group, episodes=lonely))[0].advantages.tolist() == grpo


@quick
@given(GROUPS, DISCOUNTS)
def test_gigpos_step_advantages_are_gagpos_at_lambda_one(group: CreditGroup, gamma: float) -> None:
    (gigpo,) = credit(GigpoSettings(gamma=gamma), group)
    (gagpo,) = credit(GagpoSettings(gamma=gamma, lam=1.0), group)
    assert gigpo.values == pytest.approx(gagpo.values, abs=1e-12)
    assert gigpo.deltas == pytest.approx(gagpo.raw, abs=1e-9)


@quick
@given(GROUPS, DISCOUNTS, LAMBDAS)
def test_ppo_with_grouped_values_for_a_critic_is_gagpo(group: CreditGroup, gamma: float, lam: float) -> None:
    (gagpo,) = credit(GagpoSettings(gamma=gamma, lam=lam), group)
    values = np.split(gagpo.values, np.cumsum(gagpo.lengths)[:-1])
    judged = [replace(episode, values=own.tolist()) for episode, own in zip(group.episodes, values, strict=True)]
    (ppo,) = credit(
        PpoSettings(gamma=gamma, lam=lam, normalisation=Normalisation.GROUP), replace(group, episodes=judged)
    )
    assert ppo.deltas.tolist() == gagpo.deltas.tolist()
    assert ppo.raw.tolist() == gagpo.raw.tolist()
    assert ppo.advantages == pytest.approx(gagpo.advantages, abs=1e-9)


@quick
@given(GROUPS, DISCOUNTS)
def test_the_critics_targets_are_returns_at_lambda_one_and_one_step_ahead_at_zero(
    group: CreditGroup, gamma: float
) -> None:
    (found,) = credit(PpoSettings(gamma=gamma, lam=1.0), group)
    assert found.raw + found.values == pytest.approx(found.returns, abs=1e-9)
    (found,) = credit(PpoSettings(gamma=gamma, lam=0.0), group)
    ahead = [
        r + gamma * after
        for episode in group.episodes
        for r, after in zip(episode.rewards, [*episode.values[1:], 0.0][: len(episode.rewards)], strict=True)
    ]
    assert found.raw + found.values == pytest.approx(np.array(ahead), abs=1e-9)


@quick
@given(GROUPS, GAGPO, st.sampled_from([0.1, 2.0]))
def test_gagpos_trajectory_term_is_grpos_advantage(group: CreditGroup, settings: GagpoSettings, weight: float) -> None:
    (plain,) = credit(settings.model_copy(update={"trajectory_weight": 0.0}), group)
    (added,) = credit(settings.model_copy(update={"trajectory_weight": weight}), group)
    (grpo,) = credit(GrpoSettings(spread=settings.spread), group)
    assert added.advantages == pytest.approx(plain.advantages + weight * grpo.advantages, abs=1e-9)


@pytest.mark.parametrize("settings", [GagpoSettings(), GigpoSettings()], ids=lambda settings: settings.name)
@quick
@given(group=GROUPS)
def test_joining_only_what_is_equal_is_grouping_by_key(settings: AnyAlgorithm, group: CreditGroup) -> None:
    """Each key has an observation of its own here, and no two are nearly equal."""
    (by_key,) = credit(settings, group)
    (by_text,) = credit(settings.model_copy(update={"similarity": 0.999}), group)
    assert by_text.advantages.tolist() == by_key.advantages.tolist()
    assert by_text.states.tolist() == by_key.states.tolist()
