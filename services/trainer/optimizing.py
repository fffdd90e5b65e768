"""Optimizer steps as the policy and a critic both take them: AdamW, gradients clipped, a learning rate that rises."""

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from shared.recipe import OptimizerSettings


def adamw(model: nn.Module, settings: OptimizerSettings, learning_rate: float) -> torch.optim.AdamW:
    """AdamW over all weights of ``model`` that are trained."""
    # Gains and biases are not decayed, as is usual.
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    rest = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=True,
    )


def clipped_step(optimizer: torch.optim.Optimizer, max_grad_norm: float, remedy: str) -> float:
    """Scale the gradients down to a norm, take a step, and drop them. Returns their norm before.

    Raises `FloatingPointError`, which names the ``remedy``, where the gradients are no numbers.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    if not torch.isfinite(norm):
        raise FloatingPointError(f"the gradient's norm is {float(norm)}: {remedy}")
    torch.nn.utils.clip_grads_with_norm_(parameters, max_grad_norm, norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(norm)


def set_learning_rate(optimizer: torch.optim.Optimizer, peak: float, warmup_steps: int, step: int) -> float:
    """Set and return the rate of training step ``step``: a linear rise to ``peak`` over the first ``warmup_steps``."""
    rate = peak * min(1.0, (step + 1) / max(warmup_steps, 1))
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate
