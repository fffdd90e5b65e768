"""The small policy's network: a Llama that vLLM serves as it is."""

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from services.trainer.small_policy.reading import things
from services.trainer.small_policy.tokenizer import END_ID, PAD_ID, build_tokenizer


@dataclass(frozen=True, slots=True)
class Size:
    """How big the network is. The defaults make 0.8 million weights."""

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
    model = LlamaForCausalLM(config)
    _compose_things(model)
    return model


@torch.no_grad()
def _compose_things(model: LlamaForCausalLM) -> None:
    """Let ``mug 2`` begin as ``mug`` + ``2``, and let words be written as they are read.

    So a thing is recognised by its kind, and copied from the prompt, before it was ever seen in training.
    """
    tokenizer = build_tokenizer()
    words = model.get_input_embeddings().weight
    for thing in things():
        kind, number = thing.split(" ")
        parts = [tokenizer.token_to_id(word) for word in (thing, kind, number)]
        words[parts[0]] = (words[parts[1]] + words[parts[2]]) / 2**0.5
    model.lm_head.weight.copy_(words)
