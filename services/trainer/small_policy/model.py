"""The small policy's network: a Llama that vLLM serves as it is."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from services.trainer.small_policy.following import begin_following
from services.trainer.small_policy.reading import Reading
from services.trainer.small_policy.readings import alfworld
from services.trainer.small_policy.tokenizer import END_ID, PAD_ID, build_tokenizer


@dataclass(frozen=True, slots=True)
class Size:
    """How big the network is. The defaults make 0.8 million weights with ALFWorld's words."""

    hidden: int = 128
    feed_forward: int = 320
    layers: int = 3
    heads: int = 4
    """Heads of 32 and more: vLLM's attention on a CPU refuses smaller ones."""
    context: int = 1024
    """Longest prompt and action together, in tokens."""


@dataclass(frozen=True, slots=True)
class Start:
    """How the weights begin, beyond what a Llama does."""

    word_scale: float = 1.0
    """Embeddings are this much larger: larger ones are told apart, and copied, sooner."""
    attention_to_same: float = 0.0
    """How much every head begins by looking for the word it stands at (arXiv 2305.09828), against random weights."""
    copying: float = 0.0
    """How much every head begins by passing on the words that it looks at."""
    following: bool = False
    """Two heads begin as the pair that goes on with what was begun: after ``a`` with what followed ``a`` before (an
    induction head, arXiv 2209.11895). Names of several tokens are then copied from the beginning."""


DEFAULT_SIZE = Size()
PLAIN = Start()


def build_model(size: Size, seed: int, reading: Reading = alfworld.READING, start: Start = PLAIN) -> LlamaForCausalLM:
    """A freshly initialised network in float32. The same seed gives the same weights."""
    config = LlamaConfig(
        vocab_size=build_tokenizer(reading).get_vocab_size(),
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
    _begin_words(model, reading, start)
    _begin_attention(model, start)
    if start.following:
        begin_following(model)
    return model


@torch.no_grad()
def _begin_words(model: LlamaForCausalLM, reading: Reading, start: Start) -> None:
    """Let ``mug 2`` begin as ``mug`` + ``2``, and let words be written as they are read.

    So a thing is recognised by its kind, and copied from the prompt, before it was ever seen in training.
    """
    tokenizer = build_tokenizer(reading)
    words = model.get_input_embeddings().weight
    if reading.scale:
        codes = _amount_codes(len(reading.scale), words.shape[1])
        words[[tokenizer.token_to_id(word) for word in reading.scale]] = codes * words.std()
    for whole, parts in reading.composed.items():
        first, second = (words[tokenizer.token_to_id(part)] for part in parts)
        words[tokenizer.token_to_id(whole)] = (first + second) / 2**0.5
    words *= start.word_scale
    model.lm_head.weight.copy_(words)


def _amount_codes(count: int, hidden: int) -> Tensor:
    """Rows of variance 1 that are the more alike the closer they are: waves of several lengths, mixed at random."""
    place = torch.arange(count)[:, None] / count
    angles = place * math.pi * 2.0 ** torch.arange(5)
    waves = torch.cat([angles.sin(), angles.cos()], 1)
    codes = waves @ torch.randn(waves.shape[1], hidden)
    return codes / codes.std()


@torch.no_grad()
def _begin_attention(model: LlamaForCausalLM, start: Start) -> None:
    """Add to every head a projection of its own that queries and keys share, and one that goes in and out again."""
    width = model.config.head_dim
    for layer in model.model.layers if start.attention_to_same or start.copying else ():
        attention = layer.self_attn
        for head in range(model.config.num_attention_heads):
            rows = slice(head * width, (head + 1) * width)
            seen, passed = (_orthonormal(model.config.hidden_size, width) for _ in range(2))
            attention.q_proj.weight[rows] += start.attention_to_same * seen.T
            attention.k_proj.weight[rows] += start.attention_to_same * seen.T
            attention.v_proj.weight[rows] += start.copying**0.5 * passed.T
            attention.o_proj.weight[:, rows] += start.copying**0.5 * passed


def _orthonormal(rows: int, columns: int) -> Tensor:
    basis: Tensor = torch.linalg.qr(torch.randn(rows, columns))[0]
    return basis
