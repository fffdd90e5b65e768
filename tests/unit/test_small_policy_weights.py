"""The committed weights, configs/small-policy, belong to the code and the recipe that use them."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from services.trainer.small_policy.model import Size, build_model
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.small_policy.tokenizer import build_tokenizer
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe

CONFIGS = Path(__file__).parents[2] / "configs"
FOLDER = CONFIGS / "small-policy"


def test_the_recipe_starts_from_them() -> None:
    assert load_recipe(CONFIGS / "alfworld-cpu.toml").model.path == FOLDER.resolve()


def test_their_tokenizer_is_the_one_that_the_code_builds() -> None:
    saved = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    assert json.loads(saved.to_str()) == json.loads(build_tokenizer().to_str())


def test_they_load_into_the_default_network() -> None:
    model = AutoModelForCausalLM.from_pretrained(FOLDER)
    fresh = build_model(Size(), 0)
    assert {name: value.shape for name, value in model.state_dict().items()} == {
        name: value.shape for name, value in fresh.state_dict().items()
    }
    assert all(value.dtype == torch.float32 for value in model.state_dict().values())


def test_they_are_small_enough_to_keep() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 5_000_000


def test_at_the_start_of_an_episode_they_go_somewhere_that_is_there() -> None:
    recipe = load_recipe(CONFIGS / "alfworld-cpu.toml")
    builder = PromptBuilder(recipe.prompt, PolicyTokenizer(FOLDER))
    model = AutoModelForCausalLM.from_pretrained(FOLDER).eval()
    places = ["cabinet 1", "countertop 1", "diningtable 1", "drawer 1", "fridge 1", "garbagecan 1", "sinkbasin 1"]
    listed = ", ".join(f"a {place}" for place in places[:-1]) + f", and a {places[-1]}"
    room = f"You are in the middle of a room. Looking quickly around you, you see {listed}."
    prompt = builder.start(f"{room}\n\nYour task is to: put a clean apple in diningtable.", {}).render(room, [])
    (sampled,) = sample_actions(model, [prompt], temperature=0.0, max_tokens=10, generator=torch.Generator())
    assert builder.action(sampled) in {f"go to {place}" for place in places}


def test_the_card_has_the_command_and_the_figures() -> None:
    card = (FOLDER / "README.md").read_text()
    assert "gagpo warmstart" in card
    assert "held-out episodes won" in card
