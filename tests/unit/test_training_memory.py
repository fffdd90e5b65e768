"""A model that is too large for the machine is told before anything is started."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gagpo.cli import app
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


def test_without_training_only_the_policy_server_counts(tmp_path: Path) -> None:
    check_memory(recipe_of(tmp_path), there=30 * GIB, training=False)
    with pytest.raises(ModelTooLargeError) as caught:
        check_memory(recipe_of(tmp_path), there=20 * GIB, training=False)
    said = str(caught.value)
    assert "take 28 GiB at the least, 28 GiB for the policy server, and this machine has 20 GiB" in said, said
    assert "model.lora_rank" not in said


def test_runs_that_share_the_machine_count_together(tmp_path: Path) -> None:
    check_memory(recipe_of(tmp_path), there=200 * GIB)
    with pytest.raises(ModelTooLargeError, match=r"times 2 runs at a time, .* has 200 GiB: make fewer runs at a time"):
        check_memory(recipe_of(tmp_path), there=200 * GIB, at_once=2)


def test_a_folder_without_a_model_is_left_to_whoever_loads_it(tmp_path: Path) -> None:
    check_memory(load_recipe(write_recipe(tmp_path)), there=1)


HUGE = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size"), 2**16) | {
    "num_hidden_layers": 4096,
    "num_attention_heads": 64,
}
"""Of a model that no machine holds."""

STUDY = """
name = "large"
seeds = [1]
[budget]
training_steps = 1
[[bases]]
name = "one"
recipe = "recipe.toml"
[[variants]]
name = "gagpo"
label = "GAGPO"
"""


@pytest.fixture
def sigterm_as_it_was() -> Iterator[None]:
    """For what runs a command in the tests' own process that handles the signal in its own way."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.usefixtures("sigterm_as_it_was")
@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="where there is a GPU, its memory is what counts")
@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "recipe.toml", "--runs", "out"],
        ["up", "recipe.toml", "--folder", "out"],
        ["up", "recipe.toml", "--folder", "out", "--servers-only"],
        ["compare", "study.toml", "--out", "out"],
    ],
    ids=" ".join,
)
def test_every_command_that_loads_the_model_says_so_before_it_starts_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    recipe_of(tmp_path)
    (tmp_path / "model" / "config.json").write_text(json.dumps(HUGE))
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 1
    assert "billion weights take" in said.stderr
    assert ("for the trainer" in said.stderr) == ("--servers-only" not in arguments)
    assert not list(tmp_path.rglob("*.log")), "nothing was started"


def test_the_small_recipes_fit_here() -> None:
    check_memory(load_recipe(Path(__file__).parents[2] / "configs" / "alfworld-cpu.toml"))
