"""Recipes: what is accepted, and what is said about what is not."""

from pathlib import Path

import pytest

from shared.recipe import RecipeError, load_document, load_recipe, parse_recipe, save_recipe

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
    with pytest.raises(RecipeError, match=r"a text takes quotes: 'model\.path=\"another\"'"):
        parse_recipe(MINIMAL, "test", Path(), ["model.path=another"])
    with pytest.raises(RecipeError, match="group_sice"):
        parse_recipe(MINIMAL, "test", Path(), ["rollout.group_sice=4"])


def test_a_document_to_send_has_the_overrides_and_leaves_paths_as_written(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(MINIMAL)
    document = load_document(file, ["rollout.group_size=4", "environments.alfworld.max_steps=7"])
    assert document["model"] == {"path": "small"}
    assert document["rollout"] == {"group_size": 4}
    assert document["environments"] == [{"name": "alfworld", "max_steps": 7}]


def test_a_saved_recipe_reads_back_as_itself(tmp_path: Path) -> None:
    recipe = parse_recipe(MINIMAL, "test", Path("/somewhere"), ["training.budget_s=12.5"])
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe


TWO = """
name = "both"
[model]
path = "small"
[prompt]
template = "think-action"
max_tokens = 2048
[sampling]
max_tokens = 512
temperature = 0.7
[[environments]]
name = "alfworld"
[[environments]]
name = "webshop"
weight = 3
[environments.prompt]
max_tokens = 4096
[environments.sampling]
max_tokens = 256
[environments.reward]
success = 5.0
"""


def test_an_environment_differs_where_its_tables_say_so_and_follows_the_job_elsewhere() -> None:
    recipe = parse_recipe(TWO, "test", Path())
    alfworld, webshop = recipe.environments
    assert (alfworld.prompt, alfworld.sampling, alfworld.reward) == (recipe.prompt, recipe.sampling, recipe.reward)
    assert (webshop.prompt.template, webshop.prompt.max_tokens) == ("think-action", 4096)
    assert (webshop.sampling.max_tokens, webshop.sampling.temperature) == (256, 0.7)
    assert (webshop.reward.success, webshop.reward.invalid_action_penalty) == (5.0, 0.1)
    assert recipe.longest_sequence == 4096 + 256


def test_what_an_environment_has_of_its_own_survives_saving_and_what_it_has_not_still_follows(tmp_path: Path) -> None:
    recipe = parse_recipe(TWO, "test", tmp_path)
    save_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe
    changed = load_recipe(tmp_path / "recipe.toml", ["prompt.max_tokens=1024", "reward.invalid_action_penalty=0.5"])
    assert [one.prompt.max_tokens for one in changed.environments] == [1024, 4096]
    assert [one.reward.invalid_action_penalty for one in changed.environments] == [0.5, 0.5]


def test_a_template_of_an_environment_is_relative_to_the_recipe() -> None:
    text = TWO.replace("max_tokens = 4096", 'template = "shop.jinja"')
    assert parse_recipe(text, "test", Path("/somewhere")).environments[1].prompt.template == "/somewhere/shop.jinja"


def test_an_override_reaches_into_the_environment_of_a_name() -> None:
    recipe = parse_recipe(TWO, "test", Path(), ["environments.webshop.max_steps=7", "environments.alfworld.weight=2"])
    assert [(one.name, one.max_steps, one.weight) for one in recipe.environments] == [
        ("alfworld", 50, 2.0),
        ("webshop", 7, 3.0),
    ]
    with pytest.raises(RecipeError, match=r"environments\.webshp: .* alfworld, webshop"):
        parse_recipe(TWO, "test", Path(), ["environments.webshp.max_steps=7"])


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ("[environments.prompt]\nmax_tokns = 1", "environments.0.prompt.max_tokns: unknown key (did you mean"),
        ("[environments.sampling]\ntemperature = 0.5", "environments.0.sampling.temperature = 0.5: one policy is"),
        ("[environments.reward]\nsuccess = -1", "environments.0.reward.success = -1"),
    ],
)
def test_a_fault_in_an_environments_own_table_is_named(addition: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(MINIMAL + addition, "test", Path())
    assert message in str(caught.value)
