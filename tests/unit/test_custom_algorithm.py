"""Estimators of one's own: the one of the examples, how they are found, and what is refused."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel

from examples.own_estimator.time_baseline import TimeBaseline
from services.trainer.algorithms import (
    CreditEpisode,
    CreditGroup,
    Custom,
    EstimatorError,
    GroupCredit,
    algorithm_of,
    make_algorithm,
)
from services.trainer.server.submission import read_recipe
from shared.problems import ProblemError
from shared.recipe import CustomSettings, RecipeError, load_document, load_recipe, save_recipe
from tests.entry_points import write_entry_point
from tests.training import write_recipe

TIME_BASELINE = "examples.own_estimator.time_baseline:TimeBaseline"
HERE = "tests.unit.test_custom_algorithm"

QUICK = CreditEpisode([0, 8], ["a", "b"], "won", terminated=True)
SLOW = CreditEpisode([0, 0, 8], ["a", "c", "b"], "won", terminated=True)
LOST = CreditEpisode([0, 0], ["a", "c"], "d", terminated=False)
GROUP = CreditGroup("task", [QUICK, SLOW, LOST])


class Options(BaseModel):
    """Of the estimators below."""

    required: int
    positive: int = 1


class Broken:
    """Credit that is spoilt in the way that ``spoil`` names."""

    Options = Options
    spoil = ""

    def __init__(self, options: Options, min_std: float) -> None:
        self.options = options

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        found = algorithm_of(load_default(), 0.0).credit(batch)
        match self.spoil:
            case "fewer groups":
                return found[:-1]
            case "shape":
                return [replace(one, advantages=one.advantages[:-1]) for one in found]
            case "lengths":
                return [replace(one, lengths=one.lengths[::-1]) for one in found]
            case _:
                return [replace(one, advantages=np.full_like(one.advantages, np.nan)) for one in found]


class Bare:
    """An estimator that forgot its ``Options``."""

    def credit(self, batch: Sequence[CreditGroup]) -> list[GroupCredit]:
        return []


def load_default() -> CustomSettings:
    return CustomSettings(estimator="time-baseline", options={"gamma": 0.5, "divide": False})


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"time-baseline": TIME_BASELINE, "broken": f"{HERE}:Broken", "bare": f"{HERE}:Bare"}
    names |= {"gone": f"{HERE}:Gone", "nowhere": "no.such.module:Class"}
    monkeypatch.setenv("GAGPO_ALGORITHMS", json.dumps(names))


def test_the_examples_estimator_compares_returns_at_the_same_time() -> None:
    """γ = ½: the returns are 4, 8 | 2, 4, 8 | 0, 0."""
    (found,) = algorithm_of(load_default(), 0.0).credit([GROUP])
    assert found.returns.tolist() == [4, 8, 2, 4, 8, 0, 0]
    assert found.values.tolist() == [2, 4, 2, 4, 8, 2, 4]
    assert found.advantages.tolist() == [2, 4, 0, 0, 0, -2, -4]
    divided = CustomSettings(estimator="time-baseline", options={"gamma": 0.5})
    (found,) = algorithm_of(divided, 0.0).credit([GROUP])
    assert found.advantages == pytest.approx(np.array([2, 4, 0, 0, 0, -2, -4]) / np.sqrt(40 / 7))
    assert algorithm_of(divided, 0.0).credit([CreditGroup("task", [])])[0].lengths == ()


def test_groups_are_compared_with_themselves_alone() -> None:
    together = algorithm_of(load_default(), 0.0).credit([GROUP, CreditGroup("task", [LOST, LOST])])
    assert together[0].advantages.tolist() == [2, 4, 0, 0, 0, -2, -4]
    assert together[1].advantages.tolist() == [0, 0, 0, 0]


def test_a_recipe_names_it_and_has_the_loss_of_every_other(tmp_path: Path) -> None:
    overrides = ['algorithm.name="custom"', 'algorithm.estimator="time-baseline"', "algorithm.options.gamma=0.9"]
    recipe = load_recipe(write_recipe(tmp_path), [*overrides, "algorithm.clip_high=0.3"])
    algorithm = make_algorithm(recipe)
    assert isinstance(algorithm, Custom)
    assert isinstance(algorithm.estimator, TimeBaseline)
    assert (algorithm.estimator.options.gamma, algorithm.estimator.min_std) == (0.9, recipe.min_std)
    assert algorithm.loss.clip_high == 0.3
    save_recipe(recipe, tmp_path / "saved.toml")
    assert load_recipe(tmp_path / "saved.toml").algorithm == recipe.algorithm


def test_a_package_registers_it_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_entry_point(tmp_path, "gagpo.algorithms", "of-a-package", TIME_BASELINE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    made = algorithm_of(CustomSettings(estimator="of-a-package"), 0.5)
    assert isinstance(made, Custom)
    assert isinstance(made.estimator, TimeBaseline)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        ("unheard-of", "algorithm.estimator = 'unheard-of': no such estimator .*time-baseline.*gagpo.algorithms"),
        ("nowhere", "cannot load 'no.such.module:Class'"),
        ("gone", "cannot load .*Gone"),
        ("bare", "needs a method credit, and a pydantic model Options"),
    ],
)
def test_an_estimator_that_cannot_be_had_is_named(estimator: str, said: str) -> None:
    with pytest.raises(EstimatorError, match=said):
        algorithm_of(CustomSettings(estimator=estimator), 0.0)


def test_every_wrong_option_is_named() -> None:
    settings = CustomSettings(estimator="broken", options={"positve": 2, "positive": "many"})
    with pytest.raises(EstimatorError) as caught:
        algorithm_of(settings, 0.0)
    assert str(caught.value).splitlines() == [
        "algorithm.options.positve: unknown key (broken knows: required, positive)",
        "algorithm.options.required: required, and not given",
        "algorithm.options.positive = 'many': Input should be a valid integer, unable to parse string as an integer",
    ]


def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGPO_ALGORITHMS", "time-baseline")
    with pytest.raises(EstimatorError, match=r"GAGPO_ALGORITHMS = 'time-baseline': should be a JSON object"):
        algorithm_of(load_default(), 0.0)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("fewer groups", "gave credit for 0 groups of 1"),
        ("shape", r"group 0: advantages has the shape \(6,\), and should have one entry a step, \(7,\)"),
        ("lengths", r"group 0: episodes of \(2, 2, 3\) steps, where they have \(3, 2, 2\)"),
        ("nan", "group 0: an advantage is infinite or not a number"),
    ],
)
def test_credit_that_does_not_fit_the_groups_is_refused(spoil: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "spoil", spoil)
    group = CreditGroup("task", [SLOW, QUICK, LOST])
    with pytest.raises(EstimatorError, match=f"algorithm.estimator = 'broken': {said}"):
        algorithm_of(CustomSettings(estimator="broken", options={"required": 1}), 0.0).credit([group])


def test_a_recipe_cannot_name_a_module(tmp_path: Path) -> None:
    """What comes over the network must not choose what is imported."""
    overrides = ['algorithm.name="custom"', 'algorithm.estimator="os:system"']
    with pytest.raises(RecipeError, match=r"algorithm\.estimator = 'os:system'"):
        load_recipe(write_recipe(tmp_path), overrides)


def test_a_submission_is_told_what_the_trainer_lacks(tmp_path: Path) -> None:
    overrides = ['algorithm.name="custom"', 'algorithm.estimator="time-baseline"', "algorithm.options.gama=0.9"]
    with pytest.raises(ProblemError) as caught:
        read_recipe(load_document(write_recipe(tmp_path), overrides))
    assert caught.value.status == 422
    assert "algorithm.options.gama: unknown key (time-baseline knows: gamma, divide)" in caught.value.detail
