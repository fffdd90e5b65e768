"""Weights that begin by going on with what was begun.

What transformers learn first about copying, and here learn slowest, is a pair of heads: one tells every token which
token stands before it, the other looks for the place where the token it stands at stood before, and reads off what came
next (In-context Learning and Induction Heads, arXiv 2209.11895). An asin of four tokens is copied so. With the pair
written into the weights, what is left to learn is which asin to begin.
"""

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

COMMON = 0.6
"""How much all embeddings have in common, as a share of their length: what looks at any token whatever it is."""
NEARNESS = 6.0
"""How sharply the first head looks at the token before."""
PASSED_ON = 0.5**0.5
"""How much of the token before it tells."""
SAMENESS = 2.0
"""How sharply the second head looks for the same token."""


@torch.no_grad()
def begin_following(model: LlamaForCausalLM) -> None:
    """Write the pair into the first heads of the first two layers. Draws from torch's global generator."""
    hidden, width = model.config.hidden_size, model.config.head_dim
    basis: Tensor = torch.linalg.qr(torch.randn(hidden, 2 * width + 1))[0]
    common, told, heard = basis[:, 0], basis[:, 1 : width + 1], basis[:, width + 1 :]
    words = model.get_input_embeddings().weight
    length = words.norm(dim=1).mean()
    words += (COMMON * length - words @ common)[:, None] * common
    seen = COMMON / (1 + COMMON**2) ** 0.5 * hidden**0.5  # of the common part, after normalisation

    before = model.model.layers[0].self_attn
    queries, keys = _one_before(model)
    before.q_proj.weight[:width] = NEARNESS / seen * torch.outer(queries, common)
    before.k_proj.weight[:width] = NEARNESS / seen * torch.outer(keys, common)
    before.v_proj.weight[:width] = PASSED_ON * told.T
    before.o_proj.weight[:, :width] = PASSED_ON * heard

    again = model.model.layers[1].self_attn
    slow = _slow(width)[:, None]
    passed: Tensor = torch.linalg.qr(torch.randn(hidden, width))[0]
    again.q_proj.weight[:width] = SAMENESS * slow * told.T
    again.k_proj.weight[:width] = SAMENESS * slow * heard.T
    again.v_proj.weight[:width] = passed.T
    again.o_proj.weight[:, :width] = passed


def _one_before(model: LlamaForCausalLM) -> tuple[Tensor, Tensor]:
    """A query and a key whose product, under rotary positions, is largest where the key is one token earlier."""
    width = model.config.head_dim
    half = width // 2
    turns = model.model.rotary_emb.inv_freq[: half // 2]  # the fast half: it tells neighbours apart
    query, key = torch.zeros(width), torch.zeros(width)
    query[: len(turns)] = 1
    key[: len(turns)], key[half : half + len(turns)] = turns.cos(), turns.sin()
    return query, key


def _slow(width: int) -> Tensor:
    """1 where rotary positions turn so slowly that a page's length does not matter, else 0."""
    return (torch.arange(width) % (width // 2) >= width // 4).float()
