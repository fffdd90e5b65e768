"""The clipped policy-gradient loss with its importance ratios and KL term (DESIGN §8.1, equations 6 and 7).

A minibatch's loss is a mean over its steps. `surrogate` returns the sum over the steps it is shown, so that a
minibatch cut into micro batches any way at all gives the same gradient once divided by the minibatch's step count.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from services.trainer.algorithms.base import LossKind
from shared.recipe import RatioKind


@dataclass(frozen=True, slots=True, eq=False)
class ActionLogprobs:
    """Log-probabilities of the tokens of B actions, padded to A tokens; every tensor has shape (B, A)."""

    new: Tensor
    """log π_θ, with gradient."""
    old: Tensor
    """log π_old."""
    reference: Tensor | None
    """log π_ref; None where the KL coefficient is 0."""
    mask: Tensor
    """1.0 at tokens, 0.0 at padding."""


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateSums:
    """Sums over the B steps shown; divide by the minibatch's number of steps."""

    loss: Tensor
    """Scalar, with gradient."""
    kl_reference: Tensor
    """k3 estimate of KL(π_θ ‖ π_ref), each action's mean over its tokens. Scalar, detached."""
    kl_old: Tensor
    """k3 estimate of KL(π_old ‖ π_θ), likewise. Scalar, detached."""
    clipped: Tensor
    """Steps (for token ratios: each step's share of tokens) where the clip took the gradient away. Scalar, detached."""


def surrogate(logprobs: ActionLogprobs, advantages: Tensor, kind: LossKind) -> SurrogateSums:
    """Equations 6 and 7, summed over steps. ``advantages`` has shape (B,): one for a step, shared by its tokens."""
    mask = logprobs.mask
    log_ratio = (logprobs.new - logprobs.old) * mask
    ratio = importance_ratio(log_ratio, mask, kind.ratio)  # (B, 1) or (B, A)
    weight = mask if kind.ratio is RatioKind.TOKEN else torch.ones_like(ratio)
    advantage = advantages.unsqueeze(1)
    plain = ratio * advantage
    bounded = ratio.clamp(1 - kind.clip_low, 1 + kind.clip_high) * advantage
    gain = _mean_over_tokens(torch.minimum(plain, bounded), weight)

    loss = -gain.sum()
    kl_reference = loss.new_zeros(())
    if logprobs.reference is not None:
        kl_reference = _mean_over_tokens(k3(logprobs.reference - logprobs.new), mask).sum()
        loss = loss + kind.kl_coefficient * kl_reference
    with torch.no_grad():
        clipped = _mean_over_tokens((bounded < plain).to(mask.dtype), weight).sum()
        # Under π_old's own samples E[π_θ/π_old − 1 − log(π_θ/π_old)] = KL(π_old ‖ π_θ).
        kl_old = _mean_over_tokens(k3(log_ratio), mask).sum()
    return SurrogateSums(loss, kl_reference.detach(), kl_old, clipped)


def importance_ratio(log_ratio: Tensor, mask: Tensor, kind: RatioKind) -> Tensor:
    """ρ from ``log π_θ − log π_old`` (B, A): shape (B, 1) shared by an action's tokens, or (B, A) for token ratios."""
    if kind is RatioKind.TOKEN:
        return log_ratio.exp()
    total = (log_ratio * mask).sum(1, keepdim=True)
    if kind is RatioKind.SEQUENCE:
        return total.exp()
    return (total / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def k3(log_ratio: Tensor) -> Tensor:
    """``exp(x) − x − 1`` ≥ 0: estimates KL(p ‖ q) without bias from samples of p, with x = log q − log p."""
    return torch.expm1(log_ratio) - log_ratio


def _mean_over_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the second dimension where the mask is 1. (B, A) → (B,); an empty action gives 0."""
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)
