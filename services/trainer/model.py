"""The policy as the trainer holds it: loading, and the log-probabilities of actions with as little work as possible."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from services.trainer.batching import MicroBatch
from services.trainer.distributed import ALONE, World
from shared.recipe import ModelSettings

# A bar for every version that is exported would fill the log.
transformers_logging.disable_progress_bar()


class ModelError(ValueError):
    """A model that cannot be trained here; the message names the remedy."""


def load_policy(path: Path, settings: ModelSettings, world: World = ALONE) -> PreTrainedModel:
    """The model in ``path``, ready for gradients. Raises `ModelError`.

    Its weights are float32 whatever the recipe's precision: most updates are too small for a bfloat16 number to change.
    """
    if settings.lora_rank:
        raise ModelError(f"model.lora_rank = {settings.lora_rank}: adapters are not trained yet, set it to 0")
    model = _load(path, torch.float32, world)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.train()  # recomputing happens in this mode only; dropout is refused below, so nothing else changes
    return model


def load_reference(path: Path, settings: ModelSettings, world: World = ALONE) -> PreTrainedModel:
    """The model in ``path`` in the recipe's precision as the frozen reference of the KL term."""
    model = _load(path, computing_dtype(settings), world)
    model.requires_grad_(requires_grad=False)
    return model


def computing_dtype(settings: ModelSettings) -> torch.dtype:
    """The precision of forward and backward passes."""
    return torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32


def action_logprobs(model: PreTrainedModel, batch: MicroBatch, width: int, temperature: float) -> Tensor:
    """The log-probability of every token of the batch's B actions, shape (B, ``width``), 0 at padding.

    Only the positions that predict action tokens go through the language-model head. ``temperature`` divides the
    logits, as it does where the actions are sampled.
    """
    hidden = model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
    logits = model.get_output_embeddings()(hidden[batch.rows, batch.positions]).float()
    if temperature not in (0.0, 1.0):
        logits = logits / temperature
    logprobs: Tensor = logits.new_zeros(len(batch.samples), width)
    logprobs[batch.places] = -cross_entropy(logits, batch.targets, reduction="none")
    return logprobs


def _load(path: Path, dtype: torch.dtype, world: World) -> PreTrainedModel:
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, attn_implementation="sdpa", local_files_only=True
        )
    except OSError as error:
        raise ModelError(
            f"model.path = {path} holds no Hugging Face model: {error}. "
            "`gagpo warmstart` makes a small one; a pretrained one is downloaded with `hf download`"
        ) from error
    config = model.config
    if getattr(config, "final_logit_softcapping", None) or getattr(config, "logit_scale", None):
        raise ModelError(
            f"{path}: {config.model_type} models change their logits after the head, which is not done here"
        )
    if any(isinstance(part, nn.Dropout) and part.p > 0 for part in model.modules()):
        raise ModelError(f"{path} has dropout: set its probabilities to 0 in config.json, so that log π is a number")
    model.eval()
    # A model that is to be sharded may not fit on one device: then it moves there block by block.
    return model if world.mesh is not None else model.to(world.device)
