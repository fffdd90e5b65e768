"""The credit viewer's numbers: pictures of groups, filters, explanations, and what other algorithms would give."""

import csv
import io
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from services.trainer.dashboard.credit_compare import advantages_by, agreement, others_than, settings_of
from services.trainer.dashboard.credit_data import (
    LEVELS,
    OpenedGroup,
    Spot,
    StepFilter,
    grid,
    group_csv,
    largest,
    open_group,
    other_situations,
    place_of,
    shades,
    short,
    signed,
)
from services.trainer.dashboard.credit_explained import explained
from services.trainer.server.credit_store import CreditStore
from shared.credit_record import StoredRecord, decode_credit_record, encode_credit_record, write_credit_record
from shared.recipe import Recipe
from shared.run_layout import RunFiles
from tests.played_credit import played_group, played_record

ALGORITHMS = ("gagpo", "gigpo", "grpo", "rloo", "ppo")


def recipe(**algorithm: object) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "viewed",
            "model": {"path": "model"},
            "environments": [{"name": "maze"}],
            "training": {"steps": 1},
            "algorithm": algorithm,
        }
    )


def stored(made_by: Recipe, groups: int = 3, skill: float = 0.4) -> StoredRecord:
    record = played_record(made_by, [played_group(0, index, skill=skill) for index in range(groups)])
    return decode_credit_record(encode_credit_record(record))


def opened(made_by: Recipe, place: int = 1, skill: float = 0.4) -> OpenedGroup:
    return open_group(CreditStore(), stored(made_by, skill=skill), place)


def test_every_cell_of_a_picture_is_its_steps_credit() -> None:
    group = opened(recipe())
    picture = grid(group, group.credit.advantages)
    assert [row.won for row in picture.rows] == [episode.won for episode in group.group.episodes]
    cells = [cell for row in picture.rows for cell in row.cells]
    assert [cell.text for cell in cells] == [short(value) for value in group.credit.advantages.tolist()]
    assert [cell.state for cell in cells] == group.credit.states.tolist()
    assert picture.limit == np.abs(group.credit.advantages).max()
    for row, (number, episode) in zip(picture.rows, enumerate(group.group.episodes), strict=True):
        for turn, (cell, step) in enumerate(zip(row.cells, episode.steps, strict=True)):
            advantage = signed(float(group.credit.advantages[group.places.row(Spot(number, turn))]))
            assert cell.label.startswith(f"Episode {number}, step {turn}: {step.action}. Advantage {advantage}")


def test_a_shade_tells_the_sign_and_the_size_and_nothing_else() -> None:
    assert shades(np.array([-2.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 2.0]), 2.0).tolist() == [
        -LEVELS,
        -LEVELS // 2,
        -1,
        0,
        1,
        LEVELS // 2,
        LEVELS,
    ]
    assert shades(np.zeros(3), 0.0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01, "+0"),
        (-0.04, "−0"),
        (0.44, "+.4"),
        (-0.97, "−1.0"),
        (9.94, "+9.9"),
        (-9.96, "−10"),
        (123, "+123"),
    ],
)
def test_a_cell_says_its_advantage_in_four_characters(value: float, text: str) -> None:
    assert short(value) == text and len(text) <= 4


def test_filters_leave_what_they_name() -> None:
    group = opened(recipe(), skill=0.1)
    credit = group.credit
    counts = {state: int((credit.states == state).sum()) for state in credit.states.tolist()}
    singles = [counts[state] == 1 for state in credit.states.tolist()]
    steps = [step for episode in group.group.episodes for step in episode.steps]
    expected = {
        StepFilter.ALL: [True] * len(credit),
        StepFilter.SINGLE: singles,
        StepFilter.SHARED: [not single for single in singles],
        StepFilter.CLIPPED: credit.clipped.tolist(),
        StepFilter.INVALID: [not step.valid_action for step in steps],
        StepFilter.LARGEST: largest(credit.advantages).tolist(),
    }
    cells = [cell for row in grid(group, credit.advantages).rows for cell in row.cells]
    for name, mask in expected.items():
        assert any(mask), f"the made-up group has nothing for {name}"
        assert [name in cell.filters for cell in cells] == mask, name


def test_the_largest_are_a_tenth_with_their_equals_and_never_nothing() -> None:
    assert np.flatnonzero(largest(np.arange(-10.0, 10.0))).tolist() == [0, 1, 19]  # −10, and −9 as large as 9
    assert largest(np.array([1.0, -3.0, 2.0])).tolist() == [False, True, False]
    assert not largest(np.zeros(20)).any()


def test_the_group_to_begin_with_is_the_one_named_or_one_with_both_outcomes() -> None:
    always = recipe()
    groups = [played_group(0, 0, skill=1.0), played_group(0, 1, skill=0.4), played_group(0, 2, skill=1.0)]
    record = decode_credit_record(encode_credit_record(played_record(always, groups)))
    assert [place_of(record, index) for index in (None, 0, 2, 99)] == [1, 0, 2, 1]


def test_an_explanation_is_of_the_recorded_numbers() -> None:
    made_by = recipe()
    group = opened(made_by)
    credit, places = group.credit, group.places
    for row in range(len(credit)):
        text = " ".join(explained(group, row, made_by.algorithm))
        here = credit.states == credit.states[row]
        if here.sum() > 1:
            episodes = len(np.unique(places.episodes[here]))
            assert text.startswith(f"{episodes} of 8 episodes were here")
            assert f"mean return {credit.returns[here].mean():.2f}".replace("-", "−") in text
        else:
            assert text.startswith("No other step was in this state")
        after = row + 1 < len(credit) and places.episodes[row + 1] == places.episodes[row]
        if after:
            worth = f"After this action the state is worth {credit.values[row + 1]:.2f}".replace("-", "−")
            assert worth.replace("−0.00", "0.00") in text.replace("−0.00", "0.00")
        assert f"A = {signed(float(credit.raw[row]))}" in text
        assert f"Â = {signed(float(credit.advantages[row]))}" in text
        assert ("encouraged" if credit.advantages[row] > 0 else "discouraged") in text
        assert ("beyond the clip" in text) == credit.clipped[row]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_explains_every_step(name: str) -> None:
    made_by = recipe(name=name)
    group = opened(made_by)
    for row in range(len(group.credit)):
        text = " ".join(explained(group, row, made_by.algorithm))
        assert f"Â = {signed(float(group.credit.advantages[row]))}" in text
        assert not re.search(r"nan|None|\d\.\d{4}", text), text


def test_a_group_without_signal_is_explained_as_left_out() -> None:
    made_by = recipe(name="grpo")
    group = opened(made_by, skill=1.0)
    text = " ".join(explained(group, 0, made_by.algorithm))
    assert "neither encouraged nor discouraged" in text and "not made from this step" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Among the group's steps"),
        ({"min_std": 50.0}, "divided by the least that counts, 50.00,"),
        ({"spread": "mean-only"}, "Less the average A of the group's steps"),
        ({"normalisation": "state"}, "over the steps in this state"),
        ({"normalisation": "batch"}, "over the whole training step"),
        ({"normalisation": "none"}, "takes it as it is"),
        ({"trajectory_weight": 0.5}, "a term for the episode as a whole"),
        ({"leave_one_out": True}, "as the recipe counts visits"),
        ({"ratio": "sequence"}, "its action had become"),
    ],
)
def test_an_explanation_knows_the_recipes_choices(options: dict[str, object], said: str) -> None:
    made_by = recipe(**options)
    group = opened(made_by)
    row = int(np.abs(group.credit.raw).argmax())
    if "leave_one_out" in options:
        row = 0  # every episode begins there
    assert said in " ".join(explained(group, row, made_by.algorithm))


def test_steps_that_only_read_the_same_are_counted() -> None:
    made_by = recipe()
    played = played_group(0, 0)
    first = played.episodes[0]
    apart = tuple(
        replace(step, true_state="moved" if turn == 0 else step.state_key) for turn, step in enumerate(first.steps)
    )
    others = [
        replace(one, steps=tuple(replace(step, true_state=step.state_key) for step in one.steps))
        for one in played.episodes[1:]
    ]
    changed = replace(played, episodes=(replace(first, steps=apart), *others))
    record = decode_credit_record(encode_credit_record(played_record(made_by, [changed])))
    group = open_group(CreditStore(), record, 0)
    same = int((group.credit.states == group.credit.states[0]).sum())
    assert other_situations(group, 0) == same - 1 >= 7
    assert other_situations(group, group.places.row(Spot(1, 0)) or 0) == 1
    assert other_situations(opened(made_by), 0) == 0  # true states that nobody knows are no others


def test_a_group_of_8_by_50_steps_is_ready_in_time(tmp_path: Path) -> None:
    made_by, files = recipe(), RunFiles(tmp_path)
    random = np.random.default_rng(0)

    def encode(text: str) -> list[int]:
        return random.integers(0, 30_000, 600 if text.startswith("Task") else 12).tolist()

    groups = [played_group(0, index, most_steps=50, skill=0.0, encode=encode) for index in range(4)]
    assert sum(len(episode.steps) for episode in groups[0].episodes) == 400
    write_credit_record(files.credit_record(0), played_record(made_by, groups))
    spent = []
    for _ in range(3):
        start = time.process_time()
        store = CreditStore()
        group = open_group(store, store.record(files, 0), 0)
        orjson.dumps(grid(group, group.credit.advantages).rows)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.15, spent  # half of what a person may wait; the browser has the other half


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("options", [{}, {"normalisation": "batch"}])
def test_the_recorded_algorithm_gives_what_was_recorded(name: str, options: dict[str, str]) -> None:
    made_by = recipe(name=name, **(options if name in ("gagpo", "ppo") else {}))
    record = stored(made_by)
    for place, one in enumerate(record.groups):
        np.testing.assert_allclose(advantages_by(name, record, place, made_by), one.credit.advantages, atol=1e-12)


def test_another_algorithm_gives_what_a_run_of_its_own_would_have() -> None:
    made_by, other = recipe(gamma=0.9), recipe(name="gigpo", gamma=0.9)
    record, of_other = stored(made_by), stored(other)
    for place, one in enumerate(of_other.groups):
        np.testing.assert_array_equal(advantages_by("gigpo", record, place, made_by), one.credit.advantages)


def test_what_has_no_critic_cannot_be_compared_with_ppo() -> None:
    assert others_than("gagpo") == ["gigpo", "grpo", "rloo"]
    assert others_than("ppo") == ["gagpo", "gigpo", "grpo", "rloo"]
    with pytest.raises(ValueError, match="'ppo'"):
        settings_of("ppo", recipe())


def test_agreement_counts_opposed_signs() -> None:
    found = agreement(np.array([1.0, -1.0, 2.0, 0.0]), np.array([2.0, 1.0, 1.0, -1.0]))
    assert (found.opposed, found.steps) == (1, 4)
    assert found.correlation == pytest.approx(np.corrcoef([1, -1, 2, 0], [2, 1, 1, -1])[0, 1])
    assert agreement(np.zeros(3), np.ones(3)).correlation is None


def test_a_group_as_a_table_holds_every_number_whole() -> None:
    group = opened(recipe())
    rows = list(csv.DictReader(io.StringIO(group_csv(group, {"advantages_grpo": np.arange(len(group.credit)) / 3}))))
    assert len(rows) == len(group.credit)
    for name in ("returns", "values", "deltas", "raw", "advantages", "ratios"):
        assert [float(row[name]) for row in rows] == getattr(group.credit, name).tolist()
    assert [float(row["advantages_grpo"]) for row in rows] == (np.arange(len(rows)) / 3).tolist()
    assert rows[0]["action"] == group.group.episodes[0].steps[0].action
