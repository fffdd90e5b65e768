"""One training step's update: log-probabilities before it, then epochs of clipped minibatches with AdamW."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from services.trainer.algorithms import LossKind
from services.trainer.batching import MicroBatch, Rows, Samples, micro_batches, minibatch_plan
from services.trainer.distributed import ALONE, World
from services.trainer.losses import ActionLogprobs, surrogate
from services.trainer.model import computing_dtype
from services.trainer.optimizing import adamw, clipped_step, set_learning_rate
from services.trainer.sharding import ActionModel, shard, shard_reference
from shared.recipe import OldLogprobs, Recipe

_REMEDY = "lower optimizer.learning_rate or raise algorithm.kl_coefficient"


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
    logprob_difference_mean: float = 0.0
    """|log π by the trainer − log π by the policy server| over the first minibatch's tokens, before anything moved."""
    logprob_difference_max: float = 0.0
    trained_tokens: int = 0
    """Prompt and action tokens, once for each epoch."""
    old_logprobs_s: float = 0.0
    """Seconds for log π_old and log π_ref."""
    update_s: float = 0.0
    """Seconds for forward and backward passes and the optimizer."""


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Log-probabilities that an update compares with, each of shape (N, A)."""

    old: Tensor
    before: Tensor
    """The trainer's own log π_old, for the samples it has computed it for; `old` itself when that is the trainer's."""
    reference: Tensor | None


class Updater:
    """Holds the policy, its reference and the optimizer, and updates the policy once a training step."""

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
        """
        computing = computing_dtype(recipe.model)
        self.policy = policy
        self._world = world
        self._policy_logprobs = shard(policy, world, computing)
        self._reference_logprobs = (
            None if reference is None else shard_reference(reference, self._policy_logprobs, world, computing)
        )
        self.optimizer = adamw(policy, recipe.optimizer, recipe.optimizer.learning_rate)
        self._recipe = recipe
        self._loss = loss
        self._check = check

    def update(self, samples: Samples, step: int) -> UpdateStats:
        """Train on a training step's samples. Whatever is random derives from the recipe's seed and ``step``."""
        settings = self._recipe.optimizer
        learning_rate = set_learning_rate(self.optimizer, settings.learning_rate, settings.warmup_steps, step)
        if not len(samples):
            return UpdateStats(learning_rate=learning_rate)
        start = time.perf_counter()
        samples = samples.to(self._world.device)
        plan = self._plan(samples, step)
        known = self._known(samples, first=plan[0])
        middle = time.perf_counter()
        sums = torch.zeros(7, dtype=torch.float64, device=self._world.device)
        grad_norms = []
        for number, rows in enumerate(plan):
            sums += self._minibatch(samples, rows, known, untouched=number == 0)
            grad_norms.append(clipped_step(self.optimizer, settings.max_grad_norm, _REMEDY))
        sums = self._world.add(sums)
        end = time.perf_counter()
        passes = self._recipe.training.epochs
        loss, kl_reference, kl_old, clipped, surprise, weight, capped = (sums / (len(samples) * passes)).tolist()
        difference_mean, difference_max = _difference(samples, plan[0], known.before)
        return UpdateStats(
            loss=loss,
            kl_reference=kl_reference,
            kl_old=kl_old,
            clip_fraction=clipped,
            entropy=surprise,
            behaviour_weight=weight,
            behaviour_capped=capped,
            grad_norm=float(np.mean(grad_norms)),
            learning_rate=learning_rate,
            logprob_difference_mean=difference_mean,
            logprob_difference_max=difference_max,
            trained_tokens=samples.tokens * passes,
            old_logprobs_s=middle - start,
            update_s=end - middle,
        )

    def logprobs(self, samples: Samples, rows: Rows, into: Tensor) -> None:
        """Write the policy's log π of the given samples' actions into ``into``, shape (N, A), without gradients."""
        self._write_logprobs(self._policy_logprobs, samples, rows, into)

    def _write_logprobs(self, model: ActionModel, samples: Samples, rows: Rows, into: Tensor) -> None:
        # FSDP keeps the memory into which it gathers weights, and tensors of inference mode could not be trained later.
        with torch.no_grad() if self._world.mesh else torch.inference_mode():
            for batch in self._micro_batches(samples, rows):
                into[batch.samples] = self._logprobs(model, batch, into.shape[1])
        self._share(into, rows)

    def _micro_batches(self, samples: Samples, rows: Rows) -> Iterator[MicroBatch]:
        """This process's micro batches; every process has equally many."""
        world, budget = self._world, self._recipe.training.micro_batch_tokens
        for batch in micro_batches(samples, rows, budget, world.rank, world.size):
            self._check()
            yield batch.to(world.device)

    def _logprobs(self, model: ActionModel, batch: MicroBatch, width: int) -> Tensor:
        logprobs: Tensor = model(batch, width, self._recipe.sampling.temperature)
        return logprobs

    def _share(self, values: Tensor, rows: Rows) -> None:
        """Complete the given rows, of which each process has filled in its own and left the others at 0."""
        if self._world.size > 1 and len(rows):
            values[rows] = self._world.add(values[rows])

    def _plan(self, samples: Samples, step: int) -> list[Rows]:
        """The samples of each minibatch, over all epochs."""
        training = self._recipe.training
        return minibatch_plan(samples.episodes, training.minibatches, training.epochs, (self._recipe.seed, step))

    def _known(self, samples: Samples, first: Rows) -> _Known:
        everything = np.arange(len(samples))
        before = torch.zeros_like(samples.rollout_logprobs)
        old = samples.rollout_logprobs
        if self._recipe.training.old_logprobs is OldLogprobs.TRAINER:
            # The first minibatch's forward pass is still one of π_old, so it fills in its own samples.
            self.logprobs(samples, np.setdiff1d(everything, first), into=before)
            old = before
        reference = None
        if self._reference_logprobs is not None:
            reference = torch.zeros_like(before)
            self._write_logprobs(self._reference_logprobs, samples, everything, into=reference)
        return _Known(old, before, reference)

    def _minibatch(self, samples: Samples, rows: Rows, known: _Known, untouched: bool) -> Tensor:
        """Gradients of one minibatch. Returns `SurrogateSums.detached` of this process's samples of it."""
        sums = torch.zeros(7, dtype=torch.float64, device=self._world.device)
        for batch in self._micro_batches(samples, rows):
            at = batch.samples
            new = self._logprobs(self._policy_logprobs, batch, samples.mask.shape[1])
            if untouched:
                known.before[at] = new.detach()
            reference = None if known.reference is None else known.reference[at]
            logprobs = ActionLogprobs(new, known.old[at], reference, samples.mask[at], samples.rollout_logprobs[at])
            found = surrogate(logprobs, samples.advantages[at], self._loss)
            # FSDP takes the mean over processes where a sum is wanted.
            torch.autograd.backward(found.loss * self._world.size / len(rows))
            sums += found.detached()
        if untouched:
            self._share(known.before, rows)
        return sums


def _difference(samples: Samples, rows: Rows, before: Tensor) -> tuple[float, float]:
    """Mean and maximum of |trainer's − server's| log π over the tokens of the given samples."""
    at = torch.from_numpy(rows)
    tokens = samples.mask[at] > 0
    difference = (before[at] - samples.rollout_logprobs[at]).abs()[tokens]
    return float(difference.mean()), float(difference.max())
