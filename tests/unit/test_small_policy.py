"""The small policy's words, its tokenizer, its network and how it samples."""

import json
import lzma
import re
from pathlib import Path

import pytest
import torch

from services.trainer.small_policy.checkpoint import save_policy
from services.trainer.small_policy.model import Size, build_model
from services.trainer.small_policy.readings.alfworld import vocabulary
from services.trainer.small_policy.sampling import sample_actions
from services.trainer.small_policy.tokenizer import END_ID, UNKNOWN_ID, build_tokenizer
from shared.prompting import PolicyTokenizer
from tests.data_paths import real_data

TINY = Size(hidden=64, feed_forward=64, layers=1, heads=2, context=64)


def test_every_action_and_word_of_the_official_games_is_known_and_comes_back_exactly() -> None:
    tokenizer = build_tokenizer()
    unknown = set()
    for split in ("train", "valid_seen", "valid_unseen"):
        with lzma.open(real_data(f"alfworld/{split}.jsonl.xz"), "rt") as lines:
            for line in lines:
                game = json.loads(line)
                unknown |= {
                    text for text in (game["goal"], *game["walkthrough"]) if UNKNOWN_ID in tokenizer.encode(text).ids
                }
                for action in game["walkthrough"]:
                    assert tokenizer.decode(tokenizer.encode(action).ids) == action
    assert not unknown


def test_every_admissible_action_that_stock_ever_offered_comes_back_exactly() -> None:
    tokenizer = build_tokenizer()
    with lzma.open(real_data("alfworld/oracle_traces.jsonl.xz"), "rt") as lines:
        actions = {action for line in lines for turn in json.loads(line)["trace"] for action in turn["adm"]}
    assert len(actions) > 500
    assert [a for a in sorted(actions) if tokenizer.decode(tokenizer.encode(a).ids) != a] == []


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("You arrive at drawer 11. The drawer 11 is closed.", "closed"),
        ("You open the fridge 1. The fridge 1 is open. In it, you see a cup 2, and an egg 1.", "opened cup 2 egg 1"),
        ("You arrive at desk 1. On the desk 1, you see nothing.", "sees nothing"),
        ("You pick up the mug 1 from the desk 1.", "done"),
        ("You turn on the desklamp 1.", "done"),
        ("Nothing happens.", "fails"),
        (
            "> help\nAvailable commands:\n  look:   look around\n  open (receptacle): open it\n> look",
            "> help commands > look",
        ),
        ("> go to desk 1\nNothing happens.\n>", "> go to desk 1 fails >"),
        ("Your task is to: put some mug on desk.", "task put mug on desk"),
        (
            "You are in the middle of a room. Looking quickly around you, you see a bed 1, and a desk 2.\n\n"
            "Your task is to: look at cd under the desklamp.",
            "room bed 1 desk 2 task look at cd under desklamp",
        ),
    ],
)
def test_what_the_game_says_is_abridged(text: str, read: str) -> None:
    assert " ".join(build_tokenizer().encode(text).tokens) == read


@pytest.mark.parametrize(
    ("action", "tokens"),
    [
        ("go to drawer 12", ["go to", "drawer 12"]),
        ("go to drawer 31", ["go to", "drawer", "31"]),
        ("take mug 1 from desk 2", ["take", "mug 1", "from", "desk 2"]),
        ("move butterknife 6 to cabinet 27", ["move", "butterknife 6", "to", "cabinet 27"]),
        ("take mug 12 from desk 7", ["take", "mug", "12", "from", "desk", "7"]),
        ("examine pen 3", ["examine", "pen 3"]),
    ],
)
def test_a_thing_is_one_token_unless_its_number_is_large(action: str, tokens: list[str]) -> None:
    encoded = build_tokenizer().encode(action)
    assert encoded.tokens == tokens
    assert build_tokenizer().decode(encoded.ids) == action


def test_no_two_words_share_an_id() -> None:
    assert len(set(vocabulary())) == len(vocabulary())
    assert build_tokenizer().get_vocab_size() == len(vocabulary()) + 3


def test_the_saved_tokenizer_is_read_alike_by_rollouts_and_by_transformers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    save_policy(build_model(TINY, 0), tmp_path)
    ours, theirs = PolicyTokenizer(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    text = "You arrive at desk 1. On the desk 1, you see a mug 1, and a pen 3.\n> take mug 1 from desk 1"
    assert ours.encode(text) == theirs(text)["input_ids"]
    assert ours.stop_token_ids == [END_ID]
    assert ours.decode([*ours.encode("go to desk 1"), END_ID]) == "go to desk 1"


def test_the_default_network_fits_a_cpu_and_vllm() -> None:
    model = build_model(Size(), 0)
    assert 500_000 < model.num_parameters() < 2_000_000
    assert model.config.head_dim >= 32
    assert not model.config.tie_word_embeddings


def test_a_thing_begins_as_its_kind_and_its_number_and_is_written_as_it_is_read() -> None:
    model, tokenizer = build_model(TINY, 0), build_tokenizer()
    words = model.get_input_embeddings().weight
    mug_2, mug, two = (words[tokenizer.token_to_id(word)] for word in ("mug 2", "mug", "2"))
    assert torch.allclose(mug_2 * 2**0.5, mug + two)
    assert torch.equal(words, model.lm_head.weight)


def test_the_same_seed_gives_the_same_weights() -> None:
    one, two, other = build_model(TINY, 1), build_model(TINY, 1), build_model(TINY, 2)
    assert torch.equal(one.lm_head.weight, two.lm_head.weight)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)


def test_greedy_sampling_in_a_padded_batch_is_greedy_decoding_of_each_prompt_alone() -> None:
    model = build_model(TINY, 3).eval()
    prompts = [[5, 6, 7], [8], list(range(10, 30))]
    sampled = sample_actions(model, prompts, temperature=0.0, max_tokens=6, generator=torch.Generator())
    for prompt, tokens in zip(prompts, sampled, strict=True):
        ids = list(prompt)
        for token in tokens:
            with torch.no_grad():
                assert int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token
            ids.append(token)
        assert len(tokens) == 6 or tokens[-1] == END_ID


def test_sampling_stops_at_the_end_token_and_repeats_with_its_seed() -> None:
    model = build_model(TINY, 3).eval()
    prompts = [[5, 6, 7], [8]] * 50

    def draw(seed: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(seed)
        return sample_actions(model, prompts, temperature=1.0, max_tokens=40, generator=generator)

    assert draw(1) == draw(1) != draw(2)
    assert all(END_ID not in tokens[:-1] for tokens in draw(1))
    assert any(len(tokens) < 40 for tokens in draw(1))


def test_no_ignored_word_is_part_of_an_action() -> None:
    ignored = re.compile(r"\b(a|an|the|some|and)\b")
    assert not [word for word in vocabulary() if ignored.fullmatch(word)]
