"""Recipes: what is accepted, and what is said about what is not."""

from pathlib import Path

import pytest

from shared.recipe import RecipeError, load_recipe, parse_recipe, save_recipe

MINIMAL = """
name = "tiny"
[model]
path = "small"
[[environments]]
name = "alfworld"
"""


def test_a_minimal_recipe_has_the_methods_defaults() -> None:
    recipe = parse_recipe(MINIMAL, "test", Path("/somewhere"))
    assert (recipe.algorithm.gamma, recipe.algorithm.lam) == (0.95, 0.8)
    assert (recipe.rollout.groups_per_step, recipe.rollout.group_size) == (16, 8)
    assert recipe.min_std == 0.5


def test_the_models_path_is_relative_to_the_recipe() -> None:
    assert parse_recipe(MINIMAL, "test", Path("/somewhere")).model.path == Path("/somewhere/small")


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("[algorithm]\ngama = 0.9", "algorithm.gama: unknown key (did you mean 'gamma'?)"),
        ("[algorithm]\nlam = 2.0", "algorithm.lam = 2.0: Input should be less than or equal to 1"),
        ("[training]\nold_logprobs = 'both'", "training.old_logprobs = 'both'"),
        ("[zzz]\nx = 1", "zzz: unknown key (known here: name, seed, model"),
        ("[training]\nminibatches = 999", "more than the 128 episodes"),
        ("[[environments]]\nname = 'alfworld'", "names one twice"),
    ],
)
def test_a_fault_is_named_with_field_value_and_remedy(addition: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(MINIMAL + addition, "test", Path())
    assert message in str(caught.value)


def test_a_missing_field_and_a_missing_file_are_named() -> None:
    with pytest.raises(RecipeError, match="name: required"):
        parse_recipe('[model]\npath = "x"\n[[environments]]\nname = "a"', "test", Path())
    with pytest.raises(RecipeError, match=r"nowhere\.toml"):
        load_recipe(Path("nowhere.toml"))


def test_overrides_replace_single_keys_and_are_checked() -> None:
    recipe = parse_recipe(MINIMAL, "test", Path(), ["rollout.group_size=4", "seed = 7"])
    assert (recipe.rollout.group_size, recipe.rollout.groups_per_step, recipe.seed) == (4, 16, 7)
    with pytest.raises(RecipeError, match="group_sice"):
        parse_recipe(MINIMAL, "test", Path(), ["rollout.group_sice=4"])


def test_a_saved_recipe_reads_back_as_itself(tmp_path: Path) -> None:
    recipe = parse_recipe(MINIMAL, "test", Path("/somewhere"), ["training.budget_s=12.5"])
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe
