"""The small policy's tokenizer: one token a word, as a ``tokenizer.json`` that vLLM and Transformers read."""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from services.trainer.small_policy.reading import Reading
from services.trainer.small_policy.readings import alfworld

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
SPECIAL = (PAD, UNKNOWN, END)
PAD_ID, UNKNOWN_ID, END_ID = range(3)
PIECE = "##"


def build_tokenizer(reading: Reading = alfworld.READING) -> Tokenizer:
    """The tokenizer. Nothing in it is learnt: the words and the abridging rules of the reading decide all."""
    ids = {word: id_ for id_, word in enumerate((*SPECIAL, *reading.words))}
    model = models.WordPiece if reading.pieces else models.WordLevel
    tokenizer = Tokenizer(model(ids, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(r.pattern if r.literal else Regex(r.pattern), r.by) for r in reading.rewrites),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(reading.word_pattern), behavior="removed", invert=True)
    # The WordPiece decoder joins words with one space, and pieces with none.
    joined = decoders.WordPiece(prefix=PIECE, cleanup=False)
    tight = [decoders.Replace(loose, close) for loose, close in reading.tight]
    tokenizer.decoder = decoders.Sequence([joined, decoders.Fuse(), *tight]) if tight else joined
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def save_tokenizer(folder: Path, model_max_length: int, reading: Reading = alfworld.READING) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``, the same bytes every time."""
    build_tokenizer(reading).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model_max_length,
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
