"""The update of TRPO (arXiv 1502.05477): one natural-gradient step a training step, inside a bound on KL(π_old ‖ π_θ).

The loss is the unclipped surrogate L(θ) = −mean over steps of ρ Â + β KL(π_θ ‖ π_ref) with gradient g at the old
weights. Conjugate gradient solves (F + damping I) x = −g, F being the Fisher matrix of the policy's tokens; then
√(2 max_kl / xᵀFx) x is the step whose KL is max_kl as far as F tells. The line search halves it until the true KL is
within the bound and the loss has fallen. No state is kept between training steps.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from services.trainer.algorithms import LossKind
from services.trainer.batching import MicroBatch, Rows, Samples
from services.trainer.conjugate_gradient import conjugate_gradient
from services.trainer.distributed import World
from services.trainer.fisher import TokenDivergence, Weights
from services.trainer.losses import SurrogateMeans
from services.trainer.movement import Movement, SampleRatios, TrustRegionStats
from services.trainer.objective import KnownLogprobs, Objective
from shared.recipe import TrustRegionSettings


class TrustRegionError(ValueError):
    """A trust region that cannot be had here; the message names the remedy."""


def unclipped(kind: LossKind) -> LossKind:
    """The same loss without clips: the trust region takes their place."""
    return replace(kind, clip_low=math.inf, clip_high=math.inf)


def refuse_shards(world: World) -> None:
    """Raise `TrustRegionError` where models are sharded."""
    if world.mesh is not None:
        raise TrustRegionError(
            f'algorithm.update = "trpo" needs whole weights, and these are sharded over {world.size} processes: train '
            'in one process (GAGPO_TRAINER_NPROC=1), or set algorithm.update = "ppo"'
        )


class TrustRegionUpdate:
    """Moves the weights by one step inside the trust region, over all samples of a training step at once."""

    def __init__(self, objective: Objective, settings: TrustRegionSettings) -> None:
        """``objective`` is of an `unclipped` loss, with whole weights."""
        self._objective = objective
        self._settings = settings
        # Keeps no state and takes no step: there is nothing for a checkpoint to bring back.
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(objective.policy.parameters())

    def set_learning_rate(self, step: int) -> float:
        """None: the trust region says how far to go."""
        return 0.0

    def plan(self, samples: Samples, step: int) -> list[Rows]:
        """All samples at once."""
        return [np.arange(len(samples))]

    def move(self, samples: Samples, plan: list[Rows], known: KnownLogprobs) -> Movement:
        """Take the longest step tried that keeps within the bound and lowers the loss, or none.

        Raises `FloatingPointError` for gradients that are no numbers.
        """
        (everything,) = plan
        divergence = self._divergence(samples, everything)
        weights = divergence.weights()
        start = self._objective.gradients(samples, everything, known, untouched=True)
        before = SurrogateMeans.of(start.sums, len(everything))
        gradient = _take_gradient(weights)
        norm = float(gradient.norm())
        if not math.isfinite(norm):
            raise FloatingPointError(f"the gradient's norm is {norm}: raise algorithm.kl_coefficient")
        step, residual = self._natural_step(self._divergence(samples, self._fisher_rows(samples)), gradient)
        old = {name: weight.detach().clone() for name, weight in weights.items()}
        for halvings in range(self._settings.line_search_steps + 1):
            fraction = 0.5**halvings
            _place(weights, {name: old[name] + fraction * step[name] for name in weights})
            kl = divergence.kl_from(old)
            if kl <= self._settings.max_kl:
                there = self._objective.evaluate(samples, everything, known)
                after = SurrogateMeans.of(there.sums, len(everything))
                if after.loss < before.loss:
                    stats = TrustRegionStats(kl, fraction, residual, halvings, rejected=False)
                    means = replace(before, kl_old=after.kl_old)
                    return Movement(means, norm, SampleRatios.of(there.ratios), stats)
        _place(weights, old)
        rejected = TrustRegionStats(0.0, 0.0, residual, self._settings.line_search_steps, rejected=True)
        return Movement(before, norm, SampleRatios.of(start.ratios), rejected)

    def _natural_step(self, divergence: TokenDivergence, gradient: Tensor) -> tuple[Weights, float]:
        """The step from the old weights whose KL is ``max_kl`` by the Fisher matrix; and the solver's residual."""
        weights, settings = divergence.weights(), self._settings
        found = conjugate_gradient(
            lambda direction: _flat(divergence.fisher_product(_split(direction, weights))),
            -gradient,
            settings.damping,
            settings.conjugate_gradient_steps,
        )
        twice_kl = float(torch.dot(found.x.double(), found.image.double()))
        scale = math.sqrt(2 * settings.max_kl / twice_kl) if twice_kl > 0 else 0.0
        return _split(scale * found.x, weights), found.residual

    def _fisher_rows(self, samples: Samples) -> Rows:
        """The samples of every so many episodes: they come group by group, so that all tasks are among them."""
        episodes = np.unique(samples.episodes)
        chosen = np.linspace(0, len(episodes), math.ceil(self._settings.fisher_share * len(episodes)), endpoint=False)
        return np.flatnonzero(np.isin(samples.episodes, episodes[chosen.astype(np.int64)]))

    def _divergence(self, samples: Samples, rows: Rows) -> TokenDivergence:
        def passes() -> Iterator[MicroBatch]:
            return self._objective.micro_batches(samples, rows)

        objective = self._objective
        return TokenDivergence(objective.policy, objective.temperature, passes, int(samples.mask[rows].sum()))


def _take_gradient(weights: Weights) -> Tensor:
    """The weights' gradients as one vector, 0 where there is none; the weights lose them."""
    gradients = {n: torch.zeros_like(w) if w.grad is None else w.grad for n, w in weights.items()}
    for weight in weights.values():
        weight.grad = None
    return _flat(gradients)


def _place(weights: Weights, values: Weights) -> None:
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(values[name])


def _flat(weights: Weights) -> Tensor:
    return torch.cat([weight.detach().reshape(-1) for weight in weights.values()])


def _split(vector: Tensor, like: Weights) -> Weights:
    """A vector in the shapes of the weights that it belongs to."""
    parts = torch.split(vector, [weight.numel() for weight in like.values()])
    return {name: part.view_as(weight) for (name, weight), part in zip(like.items(), parts, strict=True)}
