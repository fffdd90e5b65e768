"""How the small policy reads WebShop, and how its weights begin."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from services.env_server.environments.webshop.generator import SIMPLE, generate_products, simple_brands, vocabulary
from services.env_server.environments.webshop.generator.kinds import load_kinds
from services.env_server.environments.webshop.product import Product
from services.trainer.small_policy.model import Size, Start, build_model
from services.trainer.small_policy.readings import READINGS
from services.trainer.small_policy.readings.webshop import CLICKS, kinds
from services.trainer.small_policy.readings.webshop_words import ATTRIBUTES, BRANDS, DETAILS, GROUPS, LOOKS, VALUES
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.small_policy.tokenizer import SPECIAL, UNKNOWN_ID, build_tokenizer
from services.trainer.warmstart_plans import PLANS
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe

CONFIGS = Path(__file__).parents[2] / "configs"
READING = READINGS["webshop"]
TINY = Size(hidden=64, feed_forward=64, layers=2, heads=2, context=128)

GOAL = "Find me heavy duty, high speed extension cords with size: 10 ft, and price lower than 40.00 dollars"
HOME = f"WebShop\nInstruction: \n{GOAL}\n[button] Search [button_]\n"
HEADING = f"Instruction:\n{GOAL}\n[button] Back to Search [button_]\n"
RESULTS = (
    f"{HEADING}Page 1 (Total results: 12)\n[button] Next > [button_]\n"
    "\n[button] B008602794 [button_]\nYelmora Heavy Duty Extension Cord with Output Protection\n$8.95\n"
    "\n[clicked button] B091019357 [clicked button_]\nLumexa High Speed Extension Cord\n$58.95 to $100.73\n"
)
BUTTONS = "".join(f"[button] {name} [button_]\n" for name in ("Description", "Features", "Reviews", "Buy Now"))
ITEM = (
    f"{HEADING}[button] < Prev [button_]\nsize\n  [button] 3 ft [button_]\n  [button] 10 ft [button_]\n"
    f"Yelmora Heavy Duty Extension Cord with Output Protection\nPrice: $1240.5\nRating: N.A.\n{BUTTONS}"
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (HOME, "goal|heavy duty|,|high speed|extension cords|with|size|10 ft|below|40"),
        (
            RESULTS,
            "results|b008|##₁60|##₂27|##₃94|heavy duty|extension cord|output protection|$0"
            "|seen|b091|##₁01|##₂93|##₃57|high speed|extension cord|$50|upward",
        ),
        (ITEM, "item|size|3 ft|10 ft|heavy duty|extension cord|output protection|$990"),
        (ITEM.replace("size\n  [button] 3 ft [button_]\n  [button] 10 ft [button_]\n", ""),
         "item|heavy duty|extension cord|output protection|$990"),
        (f"You have clicked 10 ft.\n{ITEM}", "chosen"),
        (f"{HEADING}[button] < Prev [button_]\nHeavy duty\nOutput protection\n", "item|heavy duty|output protection"),
        ("> click[buy now]\n>", ">|click[buy now]|>"),
    ],
)  # fmt: skip
def test_what_the_shop_says_is_abridged(text: str, read: str) -> None:
    assert "|".join(build_tokenizer(READING).encode(text).tokens) == read


@pytest.mark.parametrize(
    "action",
    [
        *CLICKS,
        "search[extension cords]",
        "search[heavy duty, high speed extension cords. 24x36 unheard-of words]",
        "click[b008602794]",
        "click[b099999999]",
        "click[3 ft]",
        "click[with mic]",
        "click[cherry blossom]",
    ],
)
def test_actions_come_back_exactly(action: str) -> None:
    tokenizer = build_tokenizer(READING)
    assert tokenizer.decode(tokenizer.encode(action).ids) == action


def test_every_product_of_the_simple_style_is_known_and_what_can_be_done_with_it_comes_back() -> None:
    tokenizer = build_tokenizer(READING)
    for product in generate_products(300, 3, SIMPLE):
        assert UNKNOWN_ID not in tokenizer.encode("\n".join(_texts(product))).ids
        values = [value for of_name in product.options.values() for value in of_name]
        for action in (*(f"click[{value}]" for value in (product.asin.lower(), *values)), f"search[{product.query}]"):
            encoded = tokenizer.encode(action)
            assert tokenizer.decode(encoded.ids) == action
            assert len(encoded) <= 6


def test_the_words_are_the_generators() -> None:
    departments = [kind.department for kind in load_kinds()]
    assert set(ATTRIBUTES) == {text for d in departments for slot in d.slots for text in slot.attributes}
    assert set(VALUES) == {value for d in departments for pool in d.pools for value in pool.values}
    assert set(GROUPS) == {pool.name for d in departments for pool in d.pools}
    assert set(LOOKS) == {text for d in departments for text in d.looks}
    assert set(DETAILS) == {text for d in departments for text in d.details}
    assert set(kinds()) == {(kind.name, kind.query) for kind in load_kinds()}
    assert simple_brands() == BRANDS
    tokenizer = build_tokenizer(READING)
    assert not [word for word in vocabulary() if UNKNOWN_ID in tokenizer.encode(word).ids]


def test_no_two_words_share_an_id() -> None:
    assert len(set(READING.words)) == len(READING.words)
    assert build_tokenizer(READING).get_vocab_size() == len(READING.words) + len(SPECIAL)


def test_amounts_begin_alike_when_they_are_close_and_plurals_as_their_singulars() -> None:
    model, tokenizer = build_model(TINY, 0, READING), build_tokenizer(READING)
    words = torch.nn.functional.normalize(model.get_input_embeddings().weight.detach(), dim=1)

    def likeness(one: str, other: str) -> float:
        return float(words[tokenizer.token_to_id(one)] @ words[tokenizer.token_to_id(other)])

    assert likeness("$200", "$210") > 0.8 > likeness("$200", "$400")
    assert likeness("$200", "200") > 0.3
    assert likeness("extension cord", "extension cords") > 0.5 > likeness("extension cord", "coffee beans")


def test_weights_that_follow_find_what_came_after_the_same_word() -> None:
    model = build_model(Size(layers=2), 0, READING, Start(word_scale=10, following=True))
    model.config._attn_implementation = "eager"
    once = torch.randperm(400)[None, :40] + 10
    with torch.no_grad():
        attentions = model(input_ids=torch.cat([once, once], 1), output_attentions=True).attentions
    before, again = attentions[0][0, 0], attentions[1][0, 0]
    assert before.diagonal(-1)[5:].mean() > 0.6
    found = again.diagonal(-39)[1:]  # from a word of the second half to the one after it in the first
    assert found.mean() > 5 / 60


def _texts(product: Product) -> list[str]:
    instruction = [product.synthetic.text] if product.synthetic else []
    return [*instruction, product.title, product.description, *product.bullets, product.price_tag]


def test_the_committed_weights_belong_to_the_recipe_and_this_reading() -> None:
    folder = CONFIGS / "small-policy-webshop"
    assert load_recipe(CONFIGS / "webshop-cpu.toml").model.path == folder.resolve()
    saved = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert json.loads(saved.to_str()) == json.loads(build_tokenizer(READING).to_str())
    model = AutoModelForCausalLM.from_pretrained(folder)
    fresh = build_model(PLANS["webshop"].size, 0, READING)
    assert {name: value.shape for name, value in model.state_dict().items()} == {
        name: value.shape for name, value in fresh.state_dict().items()
    }
    assert sum(file.stat().st_size for file in folder.iterdir()) < 5_000_000


def test_the_committed_weights_begin_by_searching_for_what_is_wanted() -> None:
    folder = CONFIGS / "small-policy-webshop"
    builder = PromptBuilder(load_recipe(CONFIGS / "webshop-cpu.toml").prompt, PolicyTokenizer(folder))
    prompt = builder.start(HOME, {"goal": GOAL}).render(HOME, [])
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    (sampled,) = sample_actions(model, [prompt], temperature=0.0, max_tokens=14, generator=torch.Generator())
    assert builder.action(sampled).startswith("search[")
    assert "extension cords" in builder.action(sampled)
