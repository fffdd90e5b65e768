"""The policy as the trainer holds it: loading, and the log-probabilities of actions with as little work as possible."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from services.trainer.batching import MicroBatch
from services.trainer.distributed import ALONE, World
from services.trainer.lora import ADAPTER_FOLDER, add_adapters, restore_adapters
from shared.recipe import ModelSettings

# A bar for every version that is exported would fill the log.
transformers_logging.disable_progress_bar()


class ModelError(ValueError):
    """A model that cannot be trained here; the message names the remedy."""


def load_policy(settings: ModelSettings, checkpoint: Path | None = None, world: World = ALONE) -> PreTrainedModel:
    """The model of ``checkpoint``, or the recipe's own, ready for gradients. Raises `ModelError` and `AdapterError`.

    The weights that are trained are float32 whatever the recipe's precision: most updates are too small for a bfloat16
    number to change. Weights that are frozen beside adapters are kept as they compute.
    """
    if settings.lora_rank:
        model = _load(settings.path, computing_dtype(settings), world)
        add_adapters(model, settings)
        if checkpoint is not None:
            restore_adapters(model, checkpoint / ADAPTER_FOLDER)
    elif checkpoint is not None and (checkpoint / ADAPTER_FOLDER).exists():
        raise ModelError(
            f"model.lora_rank = 0, and {checkpoint} has adapters: set the rank back, or start a new job from the "
            "merged weights in that folder"
        )
    else:
        model = _load(checkpoint or settings.path, torch.float32, world)
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
    """The log-probability of every token of the batch's B actions, shape (B, ``width``), 0 at padding."""
    logits = action_logits(model, batch, temperature)
    logprobs: Tensor = logits.new_zeros(len(batch.samples), width)
    logprobs[batch.places] = -cross_entropy(logits, batch.targets, reduction="none")
    return logprobs


def action_logits(model: PreTrainedModel, batch: MicroBatch, temperature: float) -> Tensor:
    """The logits from which each of the batch's T action tokens was sampled, shape (T, vocabulary), at least float32.

    Only the positions that predict action tokens go through the language-model head. ``temperature`` divides the
    logits, as it does where the actions are sampled.
    """
    hidden = model.base_model(input_ids=batch.input_ids, use_cache=False).last_hidden_state
    logits: Tensor = model.get_output_embeddings()(hidden[batch.rows, batch.positions])
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature in (0.0, 1.0) else logits / temperature


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
