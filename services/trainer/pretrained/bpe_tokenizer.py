"""The tokenizer that a GGUF file describes, as the files that vLLM, Transformers and the prompt builder read.

A GGUF file keeps the tokens, the merges and the name of the rule that splits text before merging. That rule decides
the ids: `transformers` reads such a file with GPT-2's rule, under which a number after two spaces is cut differently.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from services.trainer.pretrained.gguf_model import ConversionError, GgufModel

CONTROL_TOKEN = 3
"""How GGUF's ``token_type`` marks a special token."""


def build_tokenizer(model: GgufModel) -> Tokenizer:
    """Byte-level BPE that takes every digit for itself. Raises `ConversionError` for another kind of tokenizer."""
    kind = (model.text("tokenizer.ggml.model"), model.text("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ConversionError(
            f"the file's tokenizer is {'/'.join(kind)}, and only gpt2/smollm is converted here; "
            "take the model's own Hugging Face folder instead"
        )
    tokens = model.texts("tokenizer.ggml.tokens")
    merges = [(left, right) for left, right in map(str.split, model.texts("tokenizer.ggml.merges"))]
    tokenizer = Tokenizer(models.BPE({token: place for place, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = model.integers("tokenizer.ggml.token_type")
    special = [token for token, type_ in zip(tokens, types, strict=True) if type_ == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


def save_tokenizer(model: GgufModel, folder: Path) -> None:
    """Write ``tokenizer.json``, ``tokenizer_config.json`` with the chat template, and ``generation_config.json``."""
    build_tokenizer(model).save(str(folder / "tokenizer.json"))
    tokens = model.texts("tokenizer.ggml.tokens")
    ids = {role: model.integer(f"tokenizer.ggml.{role}_token_id") for role in ("bos", "eos", "unknown", "padding")}
    config: dict[str, str | int | float | list[str]] = {
        # The class that takes tokenizer.json as it is; GPT2Tokenizer would put GPT-2's own splitting rule back.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.shape.context,
        "bos_token": tokens[ids["bos"]],
        "eos_token": tokens[ids["eos"]],
        "unk_token": tokens[ids["unknown"]],
        "pad_token": tokens[ids["padding"]],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": model.text("tokenizer.chat_template"),
    }
    write_json(folder / "tokenizer_config.json", config)
    generation = {"bos_token_id": ids["bos"], "eos_token_id": ids["eos"], "pad_token_id": ids["padding"]}
    write_json(folder / "generation_config.json", generation)


def write_json(file: Path, content: Mapping[str, str | int | float | list[str]]) -> None:
    """A JSON object, indented."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
