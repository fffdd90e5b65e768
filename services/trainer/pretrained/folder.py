"""From a GGUF file to a model folder, complete or not there at all."""

import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from tqdm import tqdm

from services.trainer.pretrained.bpe_tokenizer import save_tokenizer, write_json
from services.trainer.pretrained.gguf_model import ConversionError, GgufModel

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    folder: Path
    parameters: int
    bytes: int


def convert(file: Path, out: Path, dtype: str = "float32", extra: Mapping[str, bytes] | None = None) -> Written:
    """Write the model of a GGUF file to the new folder ``out``, with ``extra`` files (name → content) beside it.

    Raises `ConversionError` where ``out`` is there already or the file cannot be converted; nothing is left then.
    """
    if out.exists():
        raise ConversionError(f"{out} is there already; remove it first, or choose another --out")
    model = GgufModel(file)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        parameters = _write_weights(model, draft / "model.safetensors", DTYPES[dtype])
        _write_config(model, draft, dtype)
        save_tokenizer(model, draft)
        for name, content in (extra or {}).items():
            (draft / name).write_bytes(content)
        draft.chmod(0o755)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Written(out, parameters, sum(path.stat().st_size for path in out.iterdir()))


def _write_weights(model: GgufModel, file: Path, dtype: torch.dtype) -> int:
    """The number of weights."""
    tensors = {}
    for name, weights in tqdm(model.tensors(), "converting", len(model), unit="tensor", file=sys.stderr):
        tensors[name] = torch.tensor(weights, dtype=dtype)
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)
    return sum(tensor.numel() for tensor in tensors.values())


def _write_config(model: GgufModel, folder: Path, dtype: str) -> None:
    shape = model.shape
    write_json(
        folder / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "dtype": dtype,
            "vocab_size": shape.vocabulary,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": shape.context,
            "rope_theta": shape.rope_theta,
            "rms_norm_eps": shape.rms_norm_eps,
            "tie_word_embeddings": shape.tied,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": model.integer("tokenizer.ggml.bos_token_id"),
            "eos_token_id": model.integer("tokenizer.ggml.eos_token_id"),
            "pad_token_id": model.integer("tokenizer.ggml.padding_token_id"),
        },
    )
