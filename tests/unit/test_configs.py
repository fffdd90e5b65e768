"""The recipes that ship with the project."""

from pathlib import Path

import pytest

from shared.prompting import load_template
from shared.recipe import load_recipe
from shared.recipe.model import Recipe

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = sorted(CONFIGS.glob("*.toml"))


def test_there_are_recipes() -> None:
    assert {path.name for path in RECIPES} >= {"alfworld-cpu.toml", "alfworld-qwen2.5-1.5b.toml"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_loads_validates_and_names_a_template_that_there_is(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.model.path.is_absolute()
    for environment in recipe.environments:
        load_template(environment.prompt.template)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_recipe_survives_a_round_trip_through_json(path: Path) -> None:
    recipe = load_recipe(path)
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


@pytest.mark.parametrize(("environment", "max_steps", "prompt"), [("alfworld", 50, 2048), ("webshop", 15, 4096)])
def test_the_gpu_recipes_are_the_literatures(environment: str, max_steps: int, prompt: int) -> None:
    recipe = load_recipe(CONFIGS / f"{environment}-qwen2.5-1.5b.toml")
    assert (recipe.rollout.groups_per_step, recipe.rollout.group_size) == (16, 8)
    assert recipe.environments[0].max_steps == max_steps
    assert (recipe.prompt.max_tokens, recipe.sampling.max_tokens) == (prompt, 512)
    assert (recipe.prompt.template, recipe.prompt.history_length, recipe.prompt.admissible_actions) == (
        "think-action",
        2,
        True,
    )
    assert (recipe.reward.success, recipe.reward.invalid_action_penalty) == (10.0, 0.1)
    assert (recipe.algorithm.gamma, recipe.algorithm.lam, recipe.algorithm.kl_coefficient) == (0.95, 0.8, 0.01)
    assert recipe.optimizer.learning_rate == 1e-6
    assert (recipe.model.dtype, recipe.model.gradient_checkpointing) == ("bfloat16", True)


def test_the_joint_recipe_is_the_two_in_one_job() -> None:
    joint = load_recipe(CONFIGS / "alfworld-webshop-qwen2.5-1.5b.toml")
    apart = [load_recipe(CONFIGS / f"{name}-qwen2.5-1.5b.toml") for name in ("alfworld", "webshop")]
    assert joint.environments == [environment for recipe in apart for environment in recipe.environments]
    for table in ("algorithm", "optimizer", "reward", "sampling", "model"):
        assert {getattr(recipe, table) == getattr(joint, table) for recipe in apart} == {True}
    groups = sum(recipe.rollout.groups_per_step for recipe in apart)
    assert (joint.rollout.groups_per_step, joint.rollout.group_size) == (groups, 8)


def test_the_demo_never_evaluates_on_a_game_that_it_trains_on() -> None:
    environment = load_recipe(CONFIGS / "alfworld-cpu.toml").environments[0]
    assert (environment.split, environment.eval_split) == ("train", "valid_unseen")
