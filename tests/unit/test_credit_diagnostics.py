"""What is watched about a step's credit: siblings, and states that the grouping takes for one although they are not."""

from collections.abc import Sequence

from services.trainer.algorithms import CreditEpisode, CreditGroup, algorithm_of
from services.trainer.algorithms.diagnostics import CreditDiagnostics, diagnose
from shared.recipe import AnyAlgorithm, GagpoSettings, GrpoSettings, RlooSettings, ValuePool


def walk(keys: str, truths: Sequence[str] = ()) -> CreditEpisode:
    """An episode through states named by letters; ``truths`` are what these states really are."""
    return CreditEpisode([0.0] * len(keys), list(keys), "end", True, true_states=truths)


def diagnosed(*groups: CreditGroup, settings: AnyAlgorithm | None = None) -> CreditDiagnostics:
    return diagnose(algorithm_of(settings or GagpoSettings(), 0.5).credit(groups), [False] * len(groups))


def test_a_step_counts_where_its_state_is_also_another_steps_with_another_truth() -> None:
    # In a all are in A; in b one is in B and two in C; in c and d there is one step each.
    group = CreditGroup("task", [walk("abc", ["A", "B", "D"]), walk("ab", ["A", "C"]), walk("bd", ["C", "B"])])
    found = diagnosed(group)
    assert found.hidden_state_share == 3 / 7
    assert found.true_state_known == 1.0


def test_an_episode_alone_may_meet_two_truths_in_one_state() -> None:
    found = diagnosed(CreditGroup("task", [walk("aab", ["A", "A again", "B"])]))
    assert found.hidden_state_share == 2 / 3
    assert found.sibling_share == 0.0


def test_steps_whose_truth_is_unknown_are_left_out() -> None:
    # Known: A, B of the first and C of the third; the second tells nothing, and one step of the third neither.
    group = CreditGroup("task", [walk("ab", ["A", "B"]), walk("ab"), walk("ab", ["", "C"])])
    found = diagnosed(group)
    assert found.true_state_known == 3 / 6
    assert found.hidden_state_share == 2 / 3, "B and C, in b; A has nobody known beside it"
    unknown = diagnosed(CreditGroup("task", [walk("ab"), walk("ab")]))
    assert (unknown.hidden_state_share, unknown.true_state_known) == (0.0, 0.0)
    assert (diagnosed().hidden_state_share, diagnosed().true_state_known) == (0.0, 0.0)


def test_states_of_different_pools_hide_nothing_from_one_another() -> None:
    here, there = CreditGroup("task", [walk("a", ["A"])]), CreditGroup("task", [walk("a", ["B"])])
    assert diagnosed(here, there).hidden_state_share == 0.0
    pooled = GagpoSettings(value_pool=ValuePool.BATCH)
    assert diagnosed(here, there, settings=pooled).hidden_state_share == 1.0


def test_every_algorithm_tells_how_states_repeat() -> None:
    group = CreditGroup("task", [walk("aab", ["A", "B", "C"]), walk("ac", ["A", "C"])])
    for settings in (GagpoSettings(), GrpoSettings(), RlooSettings()):
        found = diagnosed(group, settings=settings)
        assert found.sibling_share == 3 / 5
        assert found.group_sizes == (2, 0, 1, 0, 0, 0)  # b and c once, a three times
        assert found.hidden_state_share == 3 / 5
