"""A model that is too large for the machine is told before anything is started."""

import json
from pathlib import Path

import pytest

from gagpo.plan.models import PUBLISHED
from gagpo.training.memory import ModelTooLargeError, check_memory
from shared.recipe import Recipe, load_recipe
from tests.training import write_recipe

GIB = 2**30


def recipe_of(folder: Path, *overrides: str) -> Recipe:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(PUBLISHED["Qwen2.5-7B-Instruct"].model_dump()))
    return load_recipe(write_recipe(folder), list(overrides))


def test_weights_gradients_and_moments_that_do_not_fit_are_counted_and_what_takes_less_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelTooLargeError) as caught:
        check_memory(recipe_of(tmp_path), there=64 * GIB)
    said = str(caught.value)
    # 7.6 billion float32 weights: once in the policy server; in the trainer with gradients, two moments, the reference.
    assert "model.path = " in said and "7.6 billion weights take 170 GiB" in said, said
    assert "28 GiB for the policy server and 142 GiB for the trainer" in said and "64 GiB" in said
    assert "model.lora_rank" in said and "gagpo plan" in said


def test_what_fits_passes_with_adapters_too(tmp_path: Path) -> None:
    check_memory(recipe_of(tmp_path), there=256 * GIB)
    check_memory(recipe_of(tmp_path, "model.lora_rank = 8"), there=64 * GIB)
    with pytest.raises(ModelTooLargeError):
        check_memory(recipe_of(tmp_path, "model.lora_rank = 8"), there=32 * GIB)


def test_a_folder_without_a_model_is_left_to_whoever_loads_it(tmp_path: Path) -> None:
    check_memory(load_recipe(write_recipe(tmp_path)), there=1)


def test_the_small_recipes_fit_here() -> None:
    check_memory(load_recipe(Path(__file__).parents[2] / "configs" / "alfworld-cpu.toml"))
