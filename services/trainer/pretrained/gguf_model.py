"""A Llama in a GGUF file: its settings and its weights, named and laid out as Transformers has them.

The format is described in the GGUF specification of the ggml project; llama.cpp's converter writes Llama's query and
key projections with the two halves of each head interleaved, which is undone here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

T = TypeVar("T")

_TOP_LEVEL = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class ConversionError(Exception):
    """The model cannot be made from what is there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The settings of a Llama that its folder's ``config.json`` needs."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    rope_theta: float
    rms_norm_eps: float
    tied: bool
    """The output layer shares the embedding's weights."""


class GgufModel:
    """An open GGUF file. Tensors are read, and put back into floats, one by one."""

    def __init__(self, file: Path) -> None:
        """Raises `ConversionError` where the file is not a GGUF file of a Llama."""
        self._reader = _open(file)
        self._file = file
        if (architecture := self.text("general.architecture")) != "llama":
            raise ConversionError(
                f"{file}: general.architecture = {architecture!r}, and only 'llama' is converted here; "
                "take the model's own Hugging Face folder instead"
            )
        self.shape = self._shape()

    def __len__(self) -> int:
        """Number of tensors."""
        return len(self._reader.tensors)

    def text(self, key: str) -> str:
        """A text of the metadata. Raises `ConversionError` where there is none."""
        return self._value(key, str)

    def integer(self, key: str) -> int:
        """A number of the metadata. Raises `ConversionError` where there is none."""
        return self._value(key, int)

    def texts(self, key: str) -> list[str]:
        """A list of texts of the metadata. Raises `ConversionError` where there is none."""
        return self._value(key, list)

    def integers(self, key: str) -> list[int]:
        """A list of numbers of the metadata. Raises `ConversionError` where there is none."""
        return self._value(key, list)

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Transformers' name and the weights of each tensor. Raises `ConversionError` for one that is not a Llama's."""
        for tensor in self._reader.tensors:
            name = _transformers_name(tensor.name)
            weights = _floats(tensor)
            if name.endswith("q_proj.weight"):
                weights = _halves_apart(weights, self.shape.heads)
            elif name.endswith("k_proj.weight"):
                weights = _halves_apart(weights, self.shape.kv_heads)
            yield name, weights

    def _shape(self) -> LlamaShape:
        heads = self.integer("llama.attention.head_count")
        hidden = self.integer("llama.embedding_length")
        return LlamaShape(
            vocabulary=len(self.texts("tokenizer.ggml.tokens")),
            hidden=hidden,
            intermediate=self.integer("llama.feed_forward_length"),
            layers=self.integer("llama.block_count"),
            heads=heads,
            kv_heads=self.integer("llama.attention.head_count_kv"),
            head_dim=hidden // heads,
            context=self.integer("llama.context_length"),
            rope_theta=self._value("llama.rope.freq_base", float),
            # The file holds a float32: 9.999999747378752e-06 stands for 1e-5.
            rms_norm_eps=float(f"{self._value('llama.attention.layer_norm_rms_epsilon', float):.6g}"),
            tied=all(tensor.name != "output.weight" for tensor in self._reader.tensors),
        )

    def _value(self, key: str, kind: type[T]) -> T:
        field = self._reader.fields.get(key)
        value = None if field is None else field.contents()
        if not isinstance(value, kind):
            raise ConversionError(
                f"{self._file}: {key} = {value!r:.80}, which should be of type {kind.__name__}; "
                "take another file of the model"
            )
        return value


def _open(file: Path) -> "GGUFReader":
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise ConversionError("the package gguf is not installed: pip install gguf") from error
    try:
        return GGUFReader(file)
    except (OSError, ValueError) as error:
        raise ConversionError(f"{file} is not a readable GGUF file ({error}); fetch it again") from error


def _transformers_name(name: str) -> str:
    if name in _TOP_LEVEL:
        return _TOP_LEVEL[name]
    match name.split("."):
        case ["blk", layer, part, "weight"] if part in _IN_BLOCK:
            return f"model.layers.{layer}.{_IN_BLOCK[part]}.weight"
    raise ConversionError(f"the tensor {name} is none of a Llama's; take the model's own Hugging Face folder instead")


def _floats(tensor: "ReaderTensor") -> NDArray[np.float32]:
    """Shape as Transformers has it (outputs first), whatever the file's quantisation."""
    from gguf.quants import dequantize

    weights: NDArray[np.float32] = dequantize(tensor.data, tensor.tensor_type)
    return weights.astype(np.float32, copy=False)


def _halves_apart(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Each head's rows from (0, d/2, 1, d/2+1, …), as the file has them, to (0, 1, …). Shape: heads·d × hidden."""
    rows, columns = weights.shape
    pairs = weights.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)
