"""Hidden states at the positions that predict action tokens, which are few: a prompt of 110 tokens, an action of 6.

The general way runs the whole decoder and picks them out. For Llama's architecture the last layer's queries, output
projection and feed-forward part are computed at those positions only, since nothing else of it is ever looked at:
for a model of three layers that is a quarter of all the work.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, apply_rotary_pos_emb


def hidden_at(model: PreTrainedModel, input_ids: Tensor, positions: Tensor) -> Tensor:
    """Final hidden states, shape (U, A, H), of ``input_ids`` (U, L) at ``positions`` (U, A), with gradient.

    Sequences are padded on the right, without a mask: causal attention never looks at the padding.
    """
    if type(model) is LlamaForCausalLM and not model.model.gradient_checkpointing:
        return _llama(model, input_ids, positions)
    hidden: Tensor = model.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
    return hidden[_rows(input_ids), positions]


def _llama(model: LlamaForCausalLM, input_ids: Tensor, positions: Tensor) -> Tensor:
    decoder = model.model
    hidden = decoder.embed_tokens(input_ids)
    everywhere = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
    rotary = decoder.rotary_emb(hidden, position_ids=everywhere)
    for layer in decoder.layers[:-1]:
        hidden = layer(hidden, position_embeddings=rotary, position_ids=everywhere)
    last: Tensor = decoder.norm(_at_positions(decoder.layers[-1], hidden, rotary, positions))
    return last


def _at_positions(layer: LlamaDecoderLayer, hidden: Tensor, rotary: tuple[Tensor, Tensor], positions: Tensor) -> Tensor:
    """One decoder layer's output at some positions. (U, L, H) and (U, A) → (U, A, H)."""
    attention, rows = layer.self_attn, _rows(hidden)
    normed = layer.input_layernorm(hidden)

    def heads(projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:2], -1, attention.head_dim).transpose(1, 2)

    queries = heads(attention.q_proj(normed[rows, positions]))
    keys, values = heads(attention.k_proj(normed)), heads(attention.v_proj(normed))
    cos, sin = rotary
    queries, _ = apply_rotary_pos_emb(queries, queries, cos[0][positions], sin[0][positions])
    keys, _ = apply_rotary_pos_emb(keys, keys, cos, sin)
    visible = torch.arange(hidden.shape[1], device=hidden.device) <= positions.unsqueeze(-1)  # (U, A, L)
    attended = scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=visible.unsqueeze(1),
        scale=attention.scaling,
        enable_gqa=keys.shape[1] != queries.shape[1],
    )
    mixed = hidden[rows, positions] + attention.o_proj(attended.transpose(1, 2).flatten(2))
    output: Tensor = mixed + layer.mlp(layer.post_attention_layernorm(mixed))
    return output


def _rows(of: Tensor) -> Tensor:
    """Row numbers of a batch, to index with positions of shape (U, A)."""
    return torch.arange(len(of), device=of.device).unsqueeze(1)
