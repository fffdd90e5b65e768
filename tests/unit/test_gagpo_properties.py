"""What must hold of GAGPO whatever the episodes are (the identities of DESIGN §8.1, and invariances)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.algorithms import CreditEpisode, CreditGroup, Gagpo, GroupCredit
from shared.recipe import AdvantageKind, GagpoSettings, Normalisation, ValuePool, Visits

SIZES = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 3))


@st.composite
def episodes(draw: st.DrawFn) -> CreditEpisode:
    rewards = draw(st.lists(SIZES, min_size=1, max_size=6))
    keys = draw(st.lists(st.sampled_from("abcd"), min_size=len(rewards), max_size=len(rewards)))
    return CreditEpisode(rewards, keys, draw(st.sampled_from("abcde")), draw(st.booleans()))


GROUPS = st.lists(episodes(), min_size=1, max_size=5).map(lambda found: CreditGroup("task", found))
SETTINGS = st.builds(
    GagpoSettings,
    gamma=st.sampled_from([0.5, 0.95, 1.0]),
    lam=st.sampled_from([0.0, 0.8, 1.0]),
    advantage=st.sampled_from(AdvantageKind),
    value_pool=st.sampled_from(ValuePool),
    visits=st.sampled_from(Visits),
    leave_one_out=st.booleans(),
    bootstrap_truncated=st.booleans(),
    normalisation=st.sampled_from(Normalisation),
)


def credit(settings: GagpoSettings, *groups: CreditGroup, min_std: float = 0.1) -> list[GroupCredit]:
    return Gagpo(settings, min_std).credit(groups)


def returns_of(episode: CreditEpisode, gamma: float) -> list[float]:
    return [sum(gamma**n * r for n, r in enumerate(episode.rewards[t:])) for t in range(len(episode.rewards))]


@given(GROUPS, st.sampled_from([0.5, 0.95, 1.0]))
def test_lambda_one_is_the_return_minus_the_value(group: CreditGroup, gamma: float) -> None:
    (found,) = credit(GagpoSettings(gamma=gamma, lam=1.0), group)
    returns = np.concatenate([returns_of(episode, gamma) for episode in group.episodes])
    keys = np.concatenate([list(episode.state_keys) for episode in group.episodes])
    values = [returns[keys == key].mean() for key in keys]
    assert found.returns == pytest.approx(returns, abs=1e-12)
    assert found.values == pytest.approx(np.array(values), abs=1e-12)
    assert found.raw == pytest.approx(returns - values, abs=1e-11)


@given(GROUPS, SETTINGS)
def test_lambda_zero_is_one_step_td(group: CreditGroup, settings: GagpoSettings) -> None:
    (found,) = credit(settings.model_copy(update={"lam": 0.0, "advantage": AdvantageKind.GAE}), group)
    assert found.raw.tolist() == found.deltas.tolist()


@given(GROUPS, st.sampled_from([0.5, 0.95]))
def test_the_td_error_is_zero_exactly_between_two_states_seen_once(group: CreditGroup, gamma: float) -> None:
    (found,) = credit(GagpoSettings(gamma=gamma), group)
    starts = np.cumsum([0, *found.lengths])
    for start, stop in pairwise(starts):
        for t in range(start, stop):
            if found.visits[t] == 1 and (t + 1 == stop or found.visits[t + 1] == 1):
                assert found.deltas[t] == 0.0


@given(st.lists(episodes(), min_size=1, max_size=6))
def test_the_value_of_the_initial_state_is_the_groups_mean_return(found: list[CreditEpisode]) -> None:
    fresh = [CreditEpisode(e.rewards, ["start", *e.state_keys[1:]], e.final_state_key, e.terminated) for e in found]
    (result,) = credit(GagpoSettings(), CreditGroup("task", fresh))
    mean = np.mean([returns_of(episode, 0.95)[0] for episode in fresh])
    assert result.values[0] == pytest.approx(mean, abs=1e-12)


def test_an_all_success_group_of_different_lengths_still_carries_signal() -> None:
    def winner(length: int) -> CreditEpisode:
        keys = ["start", *[f"{length} {t}" for t in range(1, length)]]
        return CreditEpisode([0.0] * (length - 1) + [10.0], keys, "won", terminated=True)

    group = CreditGroup("task", [winner(3), winner(6)])
    (short, long) = credit(GagpoSettings(), group, min_std=0.5)[0].by_episode()
    assert short[0] > 0 > long[0], "the shorter way is preferred from the fork on"
    (flat,) = credit(GagpoSettings(gamma=1.0), group, min_std=0.5)
    assert not flat.advantages.any(), "without discount every way to win is worth the same"


@given(GROUPS, SETTINGS, st.randoms(use_true_random=False))
def test_permuting_episodes_permutes_their_advantages(
    group: CreditGroup, settings: GagpoSettings, random: object
) -> None:
    order = list(range(len(group.episodes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = CreditGroup("task", [group.episodes[i] for i in order])
    before = credit(settings, group)[0].by_episode()
    after = credit(settings, shuffled)[0].by_episode()
    for place, i in enumerate(order):
        assert after[place] == pytest.approx(before[i], abs=1e-9)


@given(GROUPS, SETTINGS, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_rewards_and_the_floor_leaves_normalised_advantages(
    group: CreditGroup, settings: GagpoSettings, scale: float
) -> None:
    scaled = CreditGroup(
        "task",
        [
            CreditEpisode([r * scale for r in e.rewards], e.state_keys, e.final_state_key, e.terminated)
            for e in group.episodes
        ],
    )
    before, after = credit(settings, group)[0], credit(settings, scaled, min_std=0.1 * scale)[0]
    unit = scale if settings.normalisation is Normalisation.NONE else 1.0
    assert after.advantages == pytest.approx(before.advantages * unit, abs=1e-9)


@given(GROUPS, GROUPS, SETTINGS, st.booleans())
def test_an_unrelated_group_changes_nothing(
    group: CreditGroup, stranger: CreditGroup, settings: GagpoSettings, first: bool
) -> None:
    if settings.normalisation is Normalisation.BATCH:
        settings = settings.model_copy(update={"normalisation": Normalisation.GROUP})
    other = CreditGroup("another task", stranger.episodes)
    alone = credit(settings, group)[0]
    together = credit(settings, other, group)[1] if first else credit(settings, group, other)[0]
    assert together.advantages.tolist() == alone.advantages.tolist()
    assert together.visits.tolist() == alone.visits.tolist()


@given(GROUPS, SETTINGS, st.sampled_from([0.0, 0.1]))
def test_advantages_are_finite_and_centred_or_zero(group: CreditGroup, settings: GagpoSettings, floor: float) -> None:
    (found,) = credit(settings, group, min_std=floor)
    assert np.isfinite(found.advantages).all()
    if settings.normalisation in (Normalisation.GROUP, Normalisation.BATCH):
        assert found.advantages.mean() == pytest.approx(0, abs=1e-9)
        assert found.advantages.std() <= 1 + 1e-9
