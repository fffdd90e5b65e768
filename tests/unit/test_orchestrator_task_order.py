"""The order of tasks: seeded, whole passes without repeats, shares by weight."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.task_order import TaskOrder, TaskSource, shares

_sources = st.lists(
    st.builds(
        TaskSource,
        environment=st.sampled_from(["alfworld", "webshop", "maze"]),
        split=st.just("train"),
        size=st.integers(1, 9),
        weight=st.floats(0.1, 5),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda source: source.environment,
)


@given(_sources, st.integers(), st.integers(1, 60))
def test_every_pass_over_a_split_has_each_task_once(sources: list[TaskSource], seed: int, count: int) -> None:
    order = TaskOrder(sources, seed)
    drawn: dict[int, list[int]] = {place: [] for place in range(len(sources))}
    for position in range(count):
        choice = order.choice(position)
        drawn[choice.source].append(choice.index)
    for place, source in enumerate(sources):
        for start in range(0, len(drawn[place]), source.size):
            one_pass = drawn[place][start : start + source.size]
            assert len(set(one_pass)) == len(one_pass)
            assert all(0 <= index < source.size for index in one_pass)


@given(_sources, st.integers(), st.lists(st.integers(0, 40), min_size=1, max_size=20))
def test_a_place_has_the_same_task_whatever_was_asked_before(
    sources: list[TaskSource], seed: int, positions: list[int]
) -> None:
    straight = TaskOrder(sources, seed)
    in_order = [straight.choice(position) for position in range(41)]
    for position in positions:
        assert TaskOrder(sources, seed).choice(position) == in_order[position]


def test_another_seed_gives_another_order() -> None:
    source = TaskSource("alfworld", "train", 1000)
    orders = [[TaskOrder([source], seed).choice(at).index for at in range(20)] for seed in (0, 1)]
    assert orders[0] != orders[1]


def test_the_order_of_a_seed_never_changes() -> None:
    """A run that is continued on another machine, or after an update, goes on with the same tasks."""
    order = TaskOrder([TaskSource("alfworld", "train", 10), TaskSource("webshop", "train", 10)], 7)
    assert [(choice.source, choice.index) for choice in map(order.choice, range(6))] == [
        (0, 2),
        (1, 3),
        (0, 6),
        (1, 6),
        (0, 1),
        (1, 0),
    ]


def test_weights_are_shares_of_every_training_step() -> None:
    order = TaskOrder([TaskSource("a", "train", 5, weight=3.0), TaskSource("b", "train", 5, weight=1.0)], 0)
    for start in range(0, 400, 16):
        assert Counter(order.choice(position).source for position in range(start, start + 16)) == {0: 12, 1: 4}


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6), st.integers(0, 300))
def test_shares_add_up_and_are_as_the_weights_say(weights: list[float], total: int) -> None:
    got = shares(weights, total)
    assert sum(got) == total
    for weight, number in zip(weights, got, strict=True):
        assert abs(number - total * weight / sum(weights)) < len(weights)


def test_the_tasks_of_an_environment_do_not_depend_on_its_company() -> None:
    alone = TaskOrder([TaskSource("webshop", "train", 10)], 7)
    together = TaskOrder([TaskSource("alfworld", "train", 10), TaskSource("webshop", "train", 10, weight=2.0)], 7)
    own = [choice.index for choice in map(together.choice, range(60)) if choice.source == 1]
    assert own == [alone.choice(position).index for position in range(40)]


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(ValueError, match="'train' of 'alfworld' has no task"):
        TaskOrder([TaskSource("alfworld", "train", 0)], 0)
