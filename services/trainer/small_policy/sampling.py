"""Sampling actions from a small policy in this process, in batches, without a policy server."""

from collections.abc import Sequence

import torch
from transformers import LlamaForCausalLM

from services.trainer.small_policy.tokenizer import END_ID, PAD_ID


@torch.inference_mode()
def sample_actions(
    model: LlamaForCausalLM,
    prompts: Sequence[Sequence[int]],
    *,
    temperature: float,
    max_tokens: int,
    generator: torch.Generator,
) -> list[list[int]]:
    """The sampled token ids of each prompt's action, its end token included. Temperature 0 is greedy."""
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), longest), PAD_ID)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):  # padded on the left, so that all rows end together
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    position = (mask.cumsum(1) - 1).clamp(min=0)
    output = model(input_ids=ids, attention_mask=mask, position_ids=position, use_cache=True, logits_to_keep=1)
    position = position[:, -1:]
    sampled = torch.empty((len(prompts), 0), dtype=torch.long)
    ended = torch.zeros(len(prompts), dtype=torch.bool)
    while True:
        logits = output.logits[:, -1].float()
        if temperature > 0:
            token = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)
        else:
            token = logits.argmax(-1, keepdim=True)
        sampled = torch.cat([sampled, token], 1)
        ended |= token[:, 0] == END_ID
        if bool(ended.all()) or sampled.shape[1] == max_tokens:
            return [_up_to_end(row) for row in sampled.tolist()]
        mask = torch.cat([mask, torch.ones_like(token)], 1)
        position = position + 1
        output = model(
            input_ids=token,
            attention_mask=mask,
            position_ids=position,
            past_key_values=output.past_key_values,
            use_cache=True,
        )


def _up_to_end(row: list[int]) -> list[int]:
    return row[: row.index(END_ID) + 1] if END_ID in row else row
