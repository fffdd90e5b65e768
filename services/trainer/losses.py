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
    rollout: Tensor | None = None
    """log π_rollout, by the policy server that sampled the tokens; needed only where steps are weighed by it."""


@dataclass(frozen=True, slots=True, eq=False)
class StepRatios:
    """How far the policy is from π_old on each of B steps, without gradient; both of shape (B,)."""

    ratio: Tensor
    """ρ; for token ratios, the mean of the step's tokens."""
    clipped: Tensor
    """Whether the clip took the gradient away, bool; for token ratios, from any of the step's tokens."""


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateSums:
    """Sums over the B steps shown, each a scalar; divide by the minibatch's number of steps. ``loss`` has a gradient.

    What is of tokens counts with its mean over the step's tokens.
    """

    loss: Tensor
    kl_reference: Tensor
    """k3 estimate of KL(π_θ ‖ π_ref)."""
    kl_old: Tensor
    """k3 estimate of KL(π_old ‖ π_θ)."""
    clipped: Tensor
    """Steps, or tokens of token ratios, where the clip took the gradient away."""
    surprise: Tensor
    """−log π_θ of the sampled tokens."""
    behaviour_weight: Tensor
    """Weights min(π_old / π_rollout, cap); 1 for each step where there is no cap."""
    capped: Tensor
    """Steps, or tokens of token ratios, whose weight the cap cut."""
    steps: StepRatios
    """Of each step by itself."""

    def detached(self) -> Tensor:
        """All sums in order, shape (7,), float64, without gradient."""
        policies = (self.loss.detach(), self.kl_reference, self.kl_old, self.clipped, self.surprise)
        return torch.stack([*policies, self.behaviour_weight, self.capped]).double()


@dataclass(frozen=True, slots=True)
class SurrogateMeans:
    """The same as means over steps."""

    loss: float
    kl_reference: float
    kl_old: float
    clipped: float
    surprise: float
    behaviour_weight: float
    capped: float

    @classmethod
    def of(cls, sums: Tensor, steps: int) -> "SurrogateMeans":
        """From `SurrogateSums.detached`, added up over ``steps`` steps."""
        return cls(*(sums / steps).tolist())


def surrogate(logprobs: ActionLogprobs, advantages: Tensor, kind: LossKind) -> SurrogateSums:
    """Equations 6 and 7, summed over steps. ``advantages`` has shape (B,): one for a step, shared by its tokens."""
    mask = logprobs.mask
    log_ratio = (logprobs.new - logprobs.old) * mask
    ratio = importance_ratio(log_ratio, mask, kind.ratio)  # (B, 1) or (B, A)
    shared = mask if kind.ratio is RatioKind.TOKEN else torch.ones_like(ratio)
    advantage = advantages.unsqueeze(1)
    plain = ratio * advantage
    bounded = ratio.clamp(1 - kind.clip_low, 1 + kind.clip_high) * advantage
    weight, capped = _behaviour_weight(logprobs, kind)
    gain = _mean_over_tokens(weight * torch.minimum(plain, bounded), shared)

    loss = -gain.sum()
    kl_reference = loss.new_zeros(())
    if logprobs.reference is not None:
        kl_reference = _mean_over_tokens(k3(logprobs.reference - logprobs.new), mask).sum()
        loss = loss + kind.kl_coefficient * kl_reference
    with torch.no_grad():
        clipped = bounded < plain
        return SurrogateSums(
            loss=loss,
            kl_reference=kl_reference,
            # Under π_old's own samples E[π_θ/π_old − 1 − log(π_θ/π_old)] = KL(π_old ‖ π_θ).
            kl_old=_mean_over_tokens(k3(log_ratio), mask).sum(),
            clipped=_mean_over_tokens(clipped.to(mask.dtype), shared).sum(),
            surprise=_mean_over_tokens(-logprobs.new, mask).sum(),
            behaviour_weight=_mean_over_tokens(weight, shared).sum(),
            capped=_mean_over_tokens(capped.to(mask.dtype), shared).sum(),
            # Padding has the ratio 1, which no clip cuts.
            steps=StepRatios(_mean_over_tokens(ratio, shared), clipped.any(1)),
        )


def importance_ratio(log_ratio: Tensor, mask: Tensor, kind: RatioKind) -> Tensor:
    """ρ from ``log π_θ − log π_old`` (B, A): shape (B, 1) shared by an action's tokens, or (B, A) for token ratios."""
    if kind is RatioKind.TOKEN:
        return log_ratio.exp()
    total = (log_ratio * mask).sum(1, keepdim=True)
    if kind is RatioKind.SEQUENCE:
        return total.exp()
    return (total / mask.sum(1, keepdim=True).clamp(min=1)).exp()


def _behaviour_weight(logprobs: ActionLogprobs, kind: LossKind) -> tuple[Tensor, Tensor]:
    """Truncated importance weights min(π_old / π_rollout, cap) and where the cap cut them, in the ratio's shape.

    Constants to the gradient. With ρ = π_θ / π_old, the clip holds π_θ near the trainer's π_old while the weight
    corrects for who sampled: the decoupled objective (arXiv 2110.00641) where groups are stale, and truncated
    importance sampling between two implementations of one policy where they are not.
    """
    if kind.behaviour_cap is None:
        one = torch.ones_like(logprobs.mask if kind.ratio is RatioKind.TOKEN else logprobs.mask[:, :1])
        return one, torch.zeros_like(one)
    if logprobs.rollout is None:
        raise ValueError(f"behaviour_cap = {kind.behaviour_cap} needs the policy server's log-probabilities")
    difference = (logprobs.old - logprobs.rollout).detach() * logprobs.mask
    weight = importance_ratio(difference, logprobs.mask, kind.ratio)
    return weight.clamp(max=kind.behaviour_cap), weight > kind.behaviour_cap


def k3(log_ratio: Tensor) -> Tensor:
    """``exp(x) − x − 1`` ≥ 0: estimates KL(p ‖ q) without bias from samples of p, with x = log q − log p."""
    return torch.expm1(log_ratio) - log_ratio


def _mean_over_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the second dimension where the mask is 1. (B, A) → (B,); an empty action gives 0."""
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)
