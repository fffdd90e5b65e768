"""How far apart two policies are over a training step's action tokens: full-vocabulary KL, and its Fisher matrix.

For a token with probabilities p = softmax(z), the Fisher matrix of the weights θ is Σₐ p(a) ∇log p(a) ∇log p(a)ᵀ, which
is the Hessian of KL(π_old ‖ π_θ) at θ = θ_old. With J the Jacobian of log p, its product with a vector is
Jᵀ(p ∘ (J v)): one pass forward for J v and one backward for Jᵀ, exact, and without the matrix.
"""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from services.trainer.batching import MicroBatch
from services.trainer.model import action_logits

Weights = dict[str, Tensor]
"""Trained weights, or a direction in which to move them, by name."""


class TokenDistributions(nn.Module):
    """A language model as a function from micro batches to log-probabilities of the whole vocabulary."""

    def __init__(self, model: PreTrainedModel, temperature: float) -> None:
        """Holds ``model`` itself, whole on this process."""
        super().__init__()
        self.model = model
        self._temperature = temperature

    def forward(self, batch: MicroBatch) -> Tensor:
        """Log π at the positions of the batch's T action tokens, shape (T, vocabulary)."""
        return action_logits(self.model, batch, self._temperature).log_softmax(-1)


class TokenDivergence:
    """KL and Fisher products, each a mean over all action tokens of the micro batches that ``passes`` makes anew."""

    def __init__(
        self, model: PreTrainedModel, temperature: float, passes: Callable[[], Iterator[MicroBatch]], tokens: int
    ) -> None:
        """``tokens`` is how many action tokens there are in all."""
        self._distributions = TokenDistributions(model, temperature)
        self._passes = passes
        self._tokens = tokens

    def weights(self) -> Weights:
        """The weights that are trained: the model's own tensors."""
        return {name: weight for name, weight in self._distributions.named_parameters() if weight.requires_grad}

    def kl_from(self, old: Mapping[str, Tensor]) -> float:
        """KL(π_old ‖ π_θ) of the policy with the ``old`` weights to the one as it is, nats a token."""
        total = 0.0
        with torch.no_grad():
            for batch in self._passes():
                log_old = functional_call(self._distributions, dict(old), (batch,))
                log_new = self._distributions(batch)
                total += float((log_old.exp() * (log_old - log_new)).sum(dtype=torch.float64))
        return total / self._tokens

    def fisher_product(self, direction: Weights) -> Weights:
        """F v for a direction v, at the weights as they are."""
        weights = self.weights()
        product = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        for batch in self._passes():
            change = self._change(weights, direction, batch)
            # Fused attention has no forward derivative; both passes take the same kernel, so that J is the same.
            with sdpa_kernel(SDPBackend.MATH):
                logprobs = self._distributions(batch)
                pulled = logprobs.detach().exp() * change / self._tokens
                gradients = torch.autograd.grad(logprobs, list(weights.values()), pulled, allow_unused=True)
            for name, gradient in zip(product, gradients, strict=True):
                if gradient is not None:
                    product[name] += gradient
        return product

    def _change(self, weights: Weights, direction: Weights, batch: MicroBatch) -> Tensor:
        """J v: how log π changes as the weights move along the direction. Shape (T, vocabulary)."""
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), forward_ad.dual_level():
            moving = {name: _dual(weight, direction[name]) for name, weight in weights.items()}
            logprobs = functional_call(self._distributions, moving, (batch,))
            _, change = forward_ad.unpack_dual(logprobs)  # type: ignore[no-untyped-call]
        return torch.zeros_like(logprobs) if change is None else change


def _dual(value: Tensor, tangent: Tensor) -> Tensor:
    """A tensor that carries its derivative along through what is computed from it."""
    dual: Tensor = forward_ad.make_dual(value.detach(), tangent)  # type: ignore[no-untyped-call]
    return dual
