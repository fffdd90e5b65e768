"""The small policy's tokenizer: one token a word, as a ``tokenizer.json`` that vLLM and Transformers read."""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from services.trainer.small_policy.reading import (
    IGNORED,
    KINDS,
    MARKS,
    NUMBERED,
    NUMBERED_OTHERWISE,
    PHRASES,
    SIGNS,
    vocabulary,
)

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
SPECIAL = (PAD, UNKNOWN, END)
PAD_ID, UNKNOWN_ID, END_ID = range(3)


def build_tokenizer() -> Tokenizer:
    """The tokenizer. Nothing in it is learnt: the words and the abridging rules of `reading` decide all."""
    words = (*SPECIAL, *vocabulary())
    tokenizer = Tokenizer(models.WordLevel({word: id_ for id_, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(Regex(pattern), f" {sign} ") for sign, pattern in SIGNS.items()),
            *(normalizers.Replace(Regex(pattern), " ") for pattern in IGNORED),
            *(normalizers.Replace(mark, f" {mark} ") for mark in MARKS if mark != "-"),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_word_pattern()), behavior="removed", invert=True)
    # The WordPiece decoder joins words with one space; no word here begins with its prefix.
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def _word_pattern() -> str:
    """What is one word: a phrase, a thing with its number, or else whatever stands between spaces."""
    limits: dict[int, list[str]] = {}
    for kind in KINDS:
        limits.setdefault(NUMBERED.get(kind, NUMBERED_OTHERWISE), []).append(kind)
    things = [
        rf"\b(?:{'|'.join(kinds)}) (?:{'|'.join(str(number) for number in range(limit, 0, -1))})(?!\d)"
        for limit, kinds in limits.items()
    ]
    return "|".join((*(rf"\b{phrase}\b" for phrase in PHRASES), *things, r"\S+"))


def save_tokenizer(folder: Path, model_max_length: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``, the same bytes every time."""
    build_tokenizer().save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model_max_length,
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
