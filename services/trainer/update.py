"""One training step's update: log-probabilities before it, then what the recipe's ``update`` does to the weights."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedModel

from services.trainer.algorithms import LossKind
from services.trainer.batching import Rows, Samples
from services.trainer.clipped_update import ClippedUpdate
from services.trainer.distributed import ALONE, World
from services.trainer.movement import SampleRatios, TrustRegionStats, Update
from services.trainer.objective import Objective
from services.trainer.trust_region import TrustRegionUpdate, refuse_shards, unclipped
from shared.recipe import Recipe, UpdateKind


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """What an update did: means over its samples and epochs, 0 where there was nothing to train on."""

    loss: float = 0.0
    kl_reference: float = 0.0
    """k3 estimate of KL(π_θ ‖ π_ref), nats a token."""
    kl_old: float = 0.0
    """k3 estimate of KL(π_old ‖ π_θ), nats a token."""
    clip_fraction: float = 0.0
    entropy: float = 0.0
    """Estimated from the sampled tokens: −mean log π_θ, nats a token."""
    behaviour_weight: float = 1.0
    """Mean of min(π_old / π_rollout, cap); 1 without ``behaviour_cap``."""
    behaviour_capped: float = 0.0
    """Share of steps (of token ratios: of tokens) whose weight the cap cut."""
    grad_norm: float = 0.0
    """Mean over minibatches, before clipping."""
    learning_rate: float = 0.0
    """0 for an update that has none."""
    logprob_difference_mean: float = 0.0
    """|log π by the trainer − log π by the policy server| over the first minibatch's tokens, before anything moved."""
    logprob_difference_max: float = 0.0
    trained_tokens: int = 0
    """Prompt and action tokens, once for each epoch."""
    old_logprobs_s: float = 0.0
    """Seconds for log π_old and log π_ref."""
    update_s: float = 0.0
    """Seconds for forward and backward passes and the optimizer."""
    trust_region: TrustRegionStats | None = None
    """Of ``update = "trpo"``."""
    ratios: SampleRatios = field(default_factory=SampleRatios.none)
    """Of each sample; with ``update = "trpo"``, after the step that was taken."""


class Updater:
    """Updates the policy once a training step, in the way that the recipe names."""

    def __init__(
        self,
        recipe: Recipe,
        loss: LossKind,
        policy: PreTrainedModel,
        reference: PreTrainedModel | None,
        check: Callable[[], None] = lambda: None,
        world: World = ALONE,
    ) -> None:
        """``check`` is called before every micro batch and may raise to abandon the update.

        Of several processes each has an updater, made and called alike; their models are sharded here, in place.
        Raises `TrustRegionError` where the recipe's update cannot run in this world.
        """
        self.policy = policy
        self._world = world
        self._update: Update
        if recipe.algorithm.update is UpdateKind.TRPO:
            refuse_shards(world)
            self._objective = Objective(recipe, unclipped(loss), policy, reference, check, world)
            self._update = TrustRegionUpdate(self._objective, recipe.algorithm.trust_region)
        else:
            self._objective = Objective(recipe, loss, policy, reference, check, world)
            self._update = ClippedUpdate(self._objective, recipe)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Its state belongs into checkpoints."""
        return self._update.optimizer

    def update(self, samples: Samples, step: int) -> UpdateStats:
        """Train on a training step's samples. Whatever is random derives from the recipe's seed and ``step``."""
        learning_rate = self._update.set_learning_rate(step)
        if not len(samples):
            return UpdateStats(learning_rate=learning_rate)
        start = time.perf_counter()
        samples = samples.to(self._world.device)
        plan = self._update.plan(samples, step)
        known = self._objective.known(samples, first=plan[0])
        middle = time.perf_counter()
        movement = self._update.move(samples, plan, known)
        end = time.perf_counter()
        means, passes = movement.means, sum(map(len, plan)) // len(samples)
        difference_mean, difference_max = _difference(samples, plan[0], known.before)
        return UpdateStats(
            loss=means.loss,
            kl_reference=means.kl_reference,
            kl_old=means.kl_old,
            clip_fraction=means.clipped,
            entropy=means.surprise,
            behaviour_weight=means.behaviour_weight,
            behaviour_capped=means.capped,
            grad_norm=movement.grad_norm,
            learning_rate=learning_rate,
            logprob_difference_mean=difference_mean,
            logprob_difference_max=difference_max,
            trained_tokens=samples.tokens * passes,
            old_logprobs_s=middle - start,
            update_s=end - middle,
            trust_region=movement.trust_region,
            ratios=movement.ratios,
        )

    def logprobs(self, samples: Samples, rows: Rows, into: Tensor) -> None:
        """Write the policy's log π of the given samples' actions into ``into``, shape (N, A), without gradients."""
        self._objective.logprobs(samples, rows, into)


def _difference(samples: Samples, rows: Rows, before: Tensor) -> tuple[float, float]:
    """Mean and maximum of |trainer's − server's| log π over the tokens of the given samples."""
    at = torch.from_numpy(rows)
    tokens = samples.mask[at] > 0
    difference = (before[at] - samples.rollout_logprobs[at]).abs()[tokens]
    return float(difference.mean()), float(difference.max())
