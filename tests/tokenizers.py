"""A small word-level tokenizer in a model folder, made on the spot."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ bos_token }} {{ message.role }} {{ message.content }} {{ eos_token }}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token }} assistant {% endif %}"
)


def write_tokenizer(folder: Path, words: str, chat_template: str | None = None) -> Path:
    """Save a tokenizer whose tokens are ``<pad>``, ``<bos>``, ``<eos>``, ``<unk>`` and each of ``words``."""
    vocabulary = ["<pad>", "<bos>", "<eos>", "<unk>", *dict.fromkeys(words.split())]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)  # type: ignore[assignment]
    tokenizer.add_special_tokens(vocabulary[:3])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": {"__type": "AddedToken", "content": "<eos>", "lstrip": False},
        "pad_token": "<pad>",
    }
    if chat_template is not None:
        config["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2]}))
    return folder
