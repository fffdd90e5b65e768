"""The size of a model, from its ``config.json`` or from a short table of models that recipes name."""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gagpo.plan.errors import PlanError
from shared.recipe import ALL_LINEAR


class ModelConfig(BaseModel):
    """The keys of a ``config.json`` that decide the size of a decoder with gated MLPs (Llama, Qwen, Mistral, …)."""

    model_config = ConfigDict(extra="ignore")

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int
    tie_word_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a model decides its costs."""

    layers: int
    hidden: int
    vocabulary: int
    key_value_width: int
    """Key-value heads times the width of a head."""
    parameters: int
    """All weights, embeddings included, biases and gains left out."""
    linear: dict[str, int]
    """Inputs and outputs together of each linear layer of a block, by its usual name: what a LoRA adapter of rank 1
    has of weights."""

    def key_value_bytes(self, bytes_per_number: int) -> int:
        """Bytes of keys and values for one token, over all layers."""
        return 2 * self.layers * self.key_value_width * bytes_per_number

    def adapter_parameters(self, rank: int, targets: str | list[str]) -> int:
        """Weights of LoRA adapters of ``rank`` on the layers that ``model.lora_targets`` names."""
        widths = [width for name, width in self.linear.items() if targets == ALL_LINEAR or name in targets]
        return rank * self.layers * sum(widths)


PUBLISHED = {
    "Qwen2.5-0.5B-Instruct": ModelConfig(
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
    ),
    "Qwen2.5-1.5B-Instruct": ModelConfig(
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
    ),
    "Qwen2.5-3B-Instruct": ModelConfig(
        hidden_size=2048,
        intermediate_size=11008,
        num_hidden_layers=36,
        num_attention_heads=16,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
    ),
    "Qwen2.5-7B-Instruct": ModelConfig(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
    ),
}
"""By the name of their folder: what recipes name and a planner rarely has on its own disk."""


def model_size(folder: Path) -> ModelSize:
    """The size of the model in a folder, or of a published one of that name. Raises `PlanError`."""
    file = folder / "config.json"
    if file.is_file():
        try:
            return size_of(ModelConfig.model_validate(json.loads(file.read_text())))
        except (json.JSONDecodeError, ValidationError) as error:
            raise PlanError(f"{file} does not say how large the model is: {error}") from error
    if folder.name in PUBLISHED:
        return size_of(PUBLISHED[folder.name])
    raise PlanError(
        f"model.path = {folder} has no config.json, and {folder.name} is none of {', '.join(PUBLISHED)}: "
        "name a folder with the model's config.json with --model"
    )


def size_of(config: ModelConfig) -> ModelSize:
    """Attention: hidden × (queries, output, keys, values); MLP: three products of hidden × intermediate; embeddings."""
    width = config.head_dim or config.hidden_size // config.num_attention_heads
    query_width = config.num_attention_heads * width
    key_value_width = (config.num_key_value_heads or config.num_attention_heads) * width
    layer = config.hidden_size * (2 * query_width + 2 * key_value_width + 3 * config.intermediate_size)
    embeddings = config.vocab_size * config.hidden_size * (1 if config.tie_word_embeddings else 2)
    return ModelSize(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        vocabulary=config.vocab_size,
        key_value_width=key_value_width,
        parameters=config.num_hidden_layers * layer + embeddings,
        linear={
            "q_proj": config.hidden_size + query_width,
            "k_proj": config.hidden_size + key_value_width,
            "v_proj": config.hidden_size + key_value_width,
            "o_proj": query_width + config.hidden_size,
            "gate_proj": config.hidden_size + config.intermediate_size,
            "up_proj": config.hidden_size + config.intermediate_size,
            "down_proj": config.intermediate_size + config.hidden_size,
        },
    )
