"""What the kinds of update have in common: a plan of minibatches, and what moving the weights comes to."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from services.trainer.batching import Rows, Samples
from services.trainer.losses import SurrogateMeans
from services.trainer.objective import KnownLogprobs


@dataclass(frozen=True, slots=True)
class TrustRegionStats:
    """What a step within a trust region did."""

    kl: float
    """Mean KL(π_old ‖ π_θ) over action tokens after it, nats a token; 0 where the weights stayed."""
    step_fraction: float
    """Share of the natural-gradient step that was taken; 0 where the weights stayed."""
    residual: float
    """|g − (F + damping) x| / |g| that conjugate gradient left."""
    halvings: int
    """How often the line search halved the step."""
    rejected: bool
    """Whether no step was good enough, so that the weights stayed."""


@dataclass(frozen=True, slots=True, eq=False)
class SampleRatios:
    """ρ of N samples when an update last saw each of them, before the optimizer's step on it."""

    ratios: NDArray[np.float64]
    """Shape (N,); for token ratios, the mean over the sample's tokens."""
    clipped: NDArray[np.bool_]
    """Whether the clip took its gradient away; for token ratios, from any of its tokens. Shape (N,)."""

    @classmethod
    def of(cls, found: Tensor) -> "SampleRatios":
        """From `Found.ratios` of all samples, added up over all processes."""
        ratios, clipped = found.double().cpu().numpy()
        return cls(ratios, clipped > 0)

    @classmethod
    def none(cls) -> "SampleRatios":
        """Of no sample."""
        return cls(np.zeros(0), np.zeros(0, np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """What came of moving the weights."""

    means: SurrogateMeans
    """Over all minibatches, each as it was met."""
    grad_norm: float
    """Mean over minibatches, before any clipping."""
    ratios: SampleRatios
    trust_region: TrustRegionStats | None = None


class Update(Protocol):
    """A way to move the weights in a training step."""

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Its state belongs into checkpoints."""

    def set_learning_rate(self, step: int) -> float:
        """Set and return the rate of a training step; 0 where there is none."""

    def plan(self, samples: Samples, step: int) -> list[Rows]:
        """The samples of each minibatch, over all epochs; of at least one where there are samples."""

    def move(self, samples: Samples, plan: list[Rows], known: KnownLogprobs) -> Movement:
        """Move the weights. ``known`` lacks log π_old of the plan's first minibatch, and gets it here."""
