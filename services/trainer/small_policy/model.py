"""The small policy's network: a Llama that vLLM serves as it is."""

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from services.trainer.small_policy.tokenizer import END_ID, PAD_ID, build_tokenizer


@dataclass(frozen=True, slots=True)
class Size:
    """How big the network is. The defaults make 0.55 million weights."""

    hidden: int = 128
    feed_forward: int = 320
    layers: int = 3
    heads: int = 4
    """Heads of 32 and more: vLLM's attention on a CPU refuses smaller ones."""
    context: int = 1024
    """Longest prompt and action together, in tokens."""


def build_model(size: Size, seed: int) -> LlamaForCausalLM:
    """A freshly initialised network in float32. The same seed gives the same weights."""
    config = LlamaConfig(
        vocab_size=build_tokenizer().get_vocab_size(),
        hidden_size=size.hidden,
        intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.context,
        # Untied: on a CPU vLLM repacks a tied head only by hand after a weight update, and the table is tiny.
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=END_ID,
        pad_token_id=PAD_ID,
        dtype="float32",
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config)
