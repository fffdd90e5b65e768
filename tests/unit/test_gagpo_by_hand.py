"""GAGPO's numbers, worked out by hand (γ = ½ and λ = ½, so that every value is exact in binary).

Three episodes of one task, rewards only at the end:

    one:   a → b → won           rewards 0, 8        G = 4, 8
    two:   a → c → b → won       rewards 0, 0, 8     G = 2, 4, 8
    three: a → c → cut in b      rewards 0, 0        G = 0, 0

    V(a) = (4 + 2 + 0) / 3 = 2     V(b) = (8 + 8) / 2 = 8     V(c) = (4 + 0) / 2 = 2
"""

from collections.abc import Sequence

import numpy as np
import pytest

from services.trainer.algorithms import CreditEpisode, CreditGroup, Gagpo, GroupCredit
from services.trainer.algorithms.diagnostics import diagnose
from shared.recipe import AdvantageKind, GagpoSettings, Normalisation, Spread, ValuePool, Visits

ONE = CreditEpisode([0, 8], ["a", "b"], "won", terminated=True)
TWO = CreditEpisode([0, 0, 8], ["a", "c", "b"], "won", terminated=True)
THREE = CreditEpisode([0, 0], ["a", "c"], "b", terminated=False)
TREE = CreditGroup("task", [ONE, TWO, THREE])
HALVES = GagpoSettings(gamma=0.5, lam=0.5)


def credit(settings: GagpoSettings, *groups: CreditGroup, min_std: float = 0.0) -> list[GroupCredit]:
    return Gagpo(settings, min_std).credit(groups)


def changed(**changes: object) -> GagpoSettings:
    return GagpoSettings.model_validate(HALVES.model_dump() | changes)


def test_returns_values_deltas_and_advantages_of_a_small_tree() -> None:
    (found,) = credit(HALVES, TREE)
    assert found.returns.tolist() == [4, 8, 2, 4, 8, 0, 0]
    assert found.values.tolist() == [2, 8, 2, 2, 8, 2, 2]
    assert found.deltas.tolist() == [2, 0, -1, 2, 0, -1, -2]
    assert found.raw.tolist() == [2, 0, -0.5, 2, 0, -1.5, -2]
    # They sum to 0; their squares to 14.5.
    assert found.advantages == pytest.approx(np.array([2, 0, -0.5, 2, 0, -1.5, -2]) / np.sqrt(14.5 / 7), abs=1e-15)
    assert found.lengths == (2, 3, 2)
    assert [part.tolist() for part in found.by_episode()] == [
        found.advantages[:2].tolist(),
        found.advantages[2:5].tolist(),
        found.advantages[5:].tolist(),
    ]


def test_siblings_and_visit_counts() -> None:
    (found,) = credit(HALVES, TREE)
    assert found.visits.tolist() == [3, 2, 3, 2, 2, 3, 2]
    assert found.has_sibling.all()
    again = CreditGroup(
        "task", [CreditEpisode([0, 0], ["a", "a"], "end", True), CreditEpisode([1], ["b"], "end", True)]
    )
    (found,) = credit(HALVES, again)
    assert found.visits.tolist() == [2, 2, 1]
    assert not found.has_sibling.any(), "a revisit by the same episode is no sibling"


def test_a_cut_episode_goes_on_with_the_value_of_its_last_state_when_bootstrapping() -> None:
    (found,) = credit(changed(bootstrap_truncated=True), TREE)
    assert found.deltas.tolist() == [2, 0, -1, 2, 0, -1, 0.5 * 8 - 2]
    assert found.raw.tolist() == [2, 0, -0.5, 2, 0, -0.5, 2]


def test_bootstrapping_leaves_a_terminated_episode_and_an_unvisited_last_state_alone() -> None:
    ended_in_b = CreditEpisode(THREE.rewards, THREE.state_keys, "b", terminated=True)
    cut_elsewhere = CreditEpisode(THREE.rewards, THREE.state_keys, "nowhere else", terminated=False)
    for third in (ended_in_b, cut_elsewhere):
        (found,) = credit(changed(bootstrap_truncated=True), CreditGroup("task", [ONE, TWO, third]))
        assert found.deltas.tolist() == [2, 0, -1, 2, 0, -1, -2]


def test_leave_one_out_values_a_state_by_the_other_episodes() -> None:
    (found,) = credit(changed(leave_one_out=True), TREE)
    # V without one: a 1, b 8; without two: a 2, c 0, b 8; without three: a 3, c 4.
    assert found.values.tolist() == [1, 8, 2, 0, 8, 3, 4]
    assert found.deltas.tolist() == [3, 0, -2, 4, 0, -1, -4]


def test_leave_one_out_keeps_the_own_return_where_nobody_else_was() -> None:
    alone = CreditGroup(
        "task", [CreditEpisode([0, 4], ["a", "mine"], "end", True), CreditEpisode([0], ["a"], "end", True)]
    )
    (found,) = credit(changed(leave_one_out=True), alone)
    assert found.values.tolist() == [0, 4, 2]


def test_first_visits_only() -> None:
    # G = 2, 4 in the first episode (twice in a), 8 in the second.
    group = CreditGroup(
        "task", [CreditEpisode([0, 4], ["a", "a"], "end", True), CreditEpisode([8], ["a"], "end", True)]
    )
    assert credit(HALVES, group)[0].values.tolist() == pytest.approx([14 / 3] * 3)
    assert credit(changed(visits=Visits.FIRST), group)[0].values.tolist() == [5, 5, 5]
    both = changed(visits=Visits.FIRST, leave_one_out=True)
    assert credit(both, group)[0].values.tolist() == [8, 8, 2]


def test_td_and_monte_carlo_are_the_two_ends_of_gae() -> None:
    (td,) = credit(changed(advantage=AdvantageKind.TD), TREE)
    assert td.raw.tolist() == td.deltas.tolist()
    (mc,) = credit(changed(advantage=AdvantageKind.MC), TREE)
    assert mc.raw.tolist() == (mc.returns - mc.values).tolist() == [2, 0, 0, 2, 0, -2, -2]


def test_values_pool_over_the_batch_for_the_same_task_only() -> None:
    twin = CreditGroup("task", [CreditEpisode([0], ["a"], "end", True)])
    stranger = CreditGroup("other task", [CreditEpisode([100], ["a"], "end", True)])
    for group, value in zip(credit(HALVES, TREE, twin, stranger), (2.0, 0.0, 100.0), strict=True):
        assert group.values[0] == value, "by default no group sees another"
    pooled = credit(changed(value_pool=ValuePool.BATCH), TREE, twin, stranger)
    for group, value in zip(pooled, (1.5, 1.5, 100.0), strict=True):  # (4 + 2 + 0 + 0) / 4
        assert group.values[0] == value
    assert pooled[1].visits.tolist() == [4]
    assert pooled[1].has_sibling.all()


def test_normalisation_over_group_state_batch_and_none() -> None:
    other = CreditGroup("other", [CreditEpisode([3], ["a"], "end", True), CreditEpisode([1], ["a"], "end", True)])
    raw = np.array([2, 0, -0.5, 2, 0, -1.5, -2])  # and ±1 in the other group

    def normalised(kind: Normalisation, spread: Spread = Spread.STD) -> list[np.ndarray]:
        return [c.advantages for c in credit(changed(normalisation=kind, spread=spread), TREE, other)]

    tree, pair = normalised(Normalisation.NONE)
    assert tree.tolist() == raw.tolist()
    assert pair.tolist() == [1, -1]
    tree, pair = normalised(Normalisation.GROUP)
    assert tree == pytest.approx(raw / np.sqrt(14.5 / 7))
    assert pair.tolist() == [1, -1]
    tree, pair = normalised(Normalisation.BATCH)
    assert tree == pytest.approx(raw / np.sqrt(16.5 / 9))
    assert pair == pytest.approx(np.array([1, -1]) / np.sqrt(16.5 / 9))
    tree, pair = normalised(Normalisation.STATE)
    in_a, in_c = np.sqrt(6.5 / 3), 2.0  # a: 2, −½, −1½; c: 2, −2; b: 0, 0
    assert tree == pytest.approx([2 / in_a, 0, -0.5 / in_a, 2 / in_c, 0, -1.5 / in_a, -2 / in_c])
    assert pair.tolist() == [1, -1], "a state of the same name in another task is another state"
    tree, pair = normalised(Normalisation.STATE, Spread.MEAN_ONLY)
    assert tree == pytest.approx(raw)
    shifted = CreditGroup("task", [CreditEpisode([8], ["a"], "end", True), CreditEpisode([2], ["b"], "end", True)])
    (found,) = credit(changed(normalisation=Normalisation.GROUP, spread=Spread.MEAN_ONLY, leave_one_out=True), shifted)
    assert found.advantages.tolist() == [0, 0]


def test_mean_only_takes_the_mean_off_and_no_more() -> None:
    # Leave-one-out values 0, 0, 8 against returns 8, 0, … give advantages that do not sum to 0.
    group = CreditGroup("t", [CreditEpisode([8], ["a"], "end", True), CreditEpisode([0, 0], ["a", "b"], "end", True)])
    (found,) = credit(changed(leave_one_out=True, spread=Spread.MEAN_ONLY), group)
    assert found.raw.tolist() == [8, -8, 0]
    group = CreditGroup("t", [CreditEpisode([8], ["a"], "end", True), CreditEpisode([0, 4], ["a", "a"], "end", True)])
    (found,) = credit(changed(leave_one_out=True, spread=Spread.MEAN_ONLY), group)
    # V: one sees (2 + 4) / 2 = 3, two sees 8; δ = 5, 0 + ½·8 − 8, 4 − 8; A = 5, −5, −4, mean −4/3.
    assert found.raw.tolist() == [5, -5, -4]
    assert found.advantages == pytest.approx([5 + 4 / 3, -5 + 4 / 3, -4 + 4 / 3])


def test_equal_returns_give_exactly_zero_and_never_nan() -> None:
    for rewards in ([0.0], [0.1], [7.3]):
        group = CreditGroup("task", [CreditEpisode(rewards, ["a"], "end", True) for _ in range(7)])
        for kind in Normalisation:
            (found,) = credit(changed(normalisation=kind), group)
            assert found.advantages.tolist() == [0.0] * 7


def test_states_seen_once_get_no_advantage_of_their_own() -> None:
    lonely = CreditEpisode([0.1, 0.2, 0.7], ["x", "y", "z"], "end", True)
    (found,) = credit(GagpoSettings(normalisation=Normalisation.NONE), CreditGroup("task", [lonely]))
    assert found.deltas.tolist() == [0, 0, 0]


def test_one_step_episodes_are_compared_with_each_other() -> None:
    group = CreditGroup("task", [CreditEpisode([r], ["a"], "end", True) for r in (8.0, 0.0, 0.0, 0.0)])
    (found,) = credit(HALVES, group)
    assert found.raw.tolist() == [6, -2, -2, -2]
    assert found.advantages == pytest.approx(np.array([3, -1, -1, -1]) / np.sqrt(3))


def test_an_episode_without_steps_and_an_empty_batch_pass_through() -> None:
    empty = CreditEpisode([], [], "a", terminated=False)
    (found,) = credit(changed(bootstrap_truncated=True), CreditGroup("task", [ONE, empty]))
    assert found.lengths == (2, 0)
    assert [len(part) for part in found.by_episode()] == [2, 0]
    assert credit(HALVES) == []
    assert len(credit(HALVES, CreditGroup("task", [empty]))[0].advantages) == 0


def test_rewards_and_keys_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 rewards but 1 state keys"):
        credit(HALVES, CreditGroup("task", [CreditEpisode([0, 1], ["a"], "end", True)]))


def wandering(rewards: Sequence[float]) -> CreditEpisode:
    return CreditEpisode(list(rewards), [f"s{i}" for i in range(len(rewards))], "end", terminated=False)


def test_penalties_of_an_all_fail_group_are_not_blown_up_to_a_success() -> None:
    failed = CreditGroup(
        "hopeless", [wandering([0, 0, 0, 0]), wandering([0, -0.1, 0, 0]), wandering([-0.1, -0.1, 0, 0])]
    )
    mixed = CreditGroup("mixed", [wandering([0, 0, 0, 10]), wandering([0, 0, 0, 0]), wandering([0, -0.1, 0, 0])])
    floored = credit(GagpoSettings(), failed, mixed, min_std=0.5)
    bare = credit(GagpoSettings(), failed, mixed, min_std=0.0)
    assert np.abs(bare[0].advantages).max() > 1, "without the floor a penalty looks like a success"
    assert np.abs(floored[0].advantages).max() < 0.25
    assert floored[1].advantages.tolist() == bare[1].advantages.tolist(), "the floor leaves a mixed group alone"
    assert diagnose(floored, [True, False]).all_fail_weight < 0.15
    assert diagnose(bare, [True, False]).all_fail_weight > 0.4


def test_diagnostics_of_the_small_tree() -> None:
    alone = CreditGroup("other", [CreditEpisode([1], ["q"], "end", True)])
    credits = credit(changed(normalisation=Normalisation.NONE), TREE, alone)
    found = diagnose(credits, [False, True])
    assert found.sibling_share == 7 / 8
    assert found.group_sizes == (1, 2, 1, 0, 0, 0)  # q once, b and c twice, a three times
    assert found.advantage_beyond_one == 4 / 8
    assert found.advantage_iqr == pytest.approx(0.5 + 0.75)  # of −2, −1½, −½, 0, 0, 0, 2, 2
    assert found.all_fail_weight == 0.0
    assert diagnose(credits, [True, True]).all_fail_weight == 1.0
    assert diagnose([], []).sibling_share == 0.0
