"""The loss of a training step's samples and its gradient, in micro batches: what every kind of update is made from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from services.trainer.algorithms import LossKind
from services.trainer.batching import MicroBatch, Rows, Samples, micro_batches
from services.trainer.distributed import ALONE, World
from services.trainer.losses import ActionLogprobs, StepRatios, SurrogateSums, surrogate
from services.trainer.model import computing_dtype
from services.trainer.sharding import ActionModel, shard, shard_reference
from shared.recipe import OldLogprobs, Recipe


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a pass over R samples found."""

    sums: Tensor
    """`SurrogateSums.detached` over the samples of all processes, shape (7,), float64."""
    ratios: Tensor
    """ρ of each sample, and 1 where the clip took its gradient away (`StepRatios`). Shape (2, R); 0 for samples that
    were another process's, so that the sum over processes is whole."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownLogprobs:
    """Log-probabilities that an update compares with, each of shape (N, A)."""

    old: Tensor
    before: Tensor
    """The trainer's own log π_old, for the samples it has computed it for; `old` itself when that is the trainer's."""
    reference: Tensor | None


class Objective:
    """Holds the policy and its reference, and finds the loss of samples under them."""

    def __init__(
        self,
        recipe: Recipe,
        kind: LossKind,
        policy: PreTrainedModel,
        reference: PreTrainedModel | None,
        check: Callable[[], None] = lambda: None,
        world: World = ALONE,
    ) -> None:
        """``check`` is called before every micro batch and may raise. The models are sharded here, in place."""
        computing = computing_dtype(recipe.model)
        self.policy = policy
        self.world = world
        self.temperature = recipe.sampling.temperature
        self._policy_logprobs = shard(policy, world, computing)
        self._reference_logprobs = (
            None if reference is None else shard_reference(reference, self._policy_logprobs, world, computing)
        )
        self._recipe = recipe
        self._kind = kind
        self._check = check

    def known(self, samples: Samples, first: Rows) -> KnownLogprobs:
        """What the update compares with. log π_old of the ``first`` samples is left to their own first `gradients`."""
        everything = np.arange(len(samples))
        before = torch.zeros_like(samples.rollout_logprobs)
        old = samples.rollout_logprobs
        if self._recipe.training.old_logprobs is OldLogprobs.TRAINER:
            self.logprobs(samples, np.setdiff1d(everything, first), into=before)
            old = before
        reference = None
        if self._reference_logprobs is not None:
            reference = torch.zeros_like(before)
            self._write_logprobs(self._reference_logprobs, samples, everything, into=reference)
        return KnownLogprobs(old, before, reference)

    def gradients(self, samples: Samples, rows: Rows, known: KnownLogprobs, *, untouched: bool = False) -> Found:
        """Add the gradient of the given samples' mean loss to the weights' ``grad``.

        ``untouched`` weights are π_old still: their log-probabilities go into ``known``.
        """
        sums, ratios = self._nothing(samples)
        for batch in self.micro_batches(samples, rows):
            new = self._logprobs(self._policy_logprobs, batch, samples)
            if untouched:
                known.before[batch.samples] = new.detach()
            found = self._surrogate(samples, batch, known, new)
            # FSDP takes the mean over processes where a sum is wanted.
            torch.autograd.backward(found.loss * self.world.size / len(rows))
            sums += found.detached()
            _note(found.steps, batch, ratios)
        if untouched:
            self._share(known.before, rows)
        return Found(self.world.add(sums), ratios[:, rows])

    def evaluate(self, samples: Samples, rows: Rows, known: KnownLogprobs) -> Found:
        """The same without gradients."""
        sums, ratios = self._nothing(samples)
        with torch.no_grad():
            for batch in self.micro_batches(samples, rows):
                new = self._logprobs(self._policy_logprobs, batch, samples)
                found = self._surrogate(samples, batch, known, new)
                sums += found.detached()
                _note(found.steps, batch, ratios)
        return Found(self.world.add(sums), ratios[:, rows])

    def logprobs(self, samples: Samples, rows: Rows, into: Tensor) -> None:
        """Write the policy's log π of the given samples' actions into ``into``, shape (N, A), without gradients."""
        self._write_logprobs(self._policy_logprobs, samples, rows, into)

    def micro_batches(self, samples: Samples, rows: Rows) -> Iterator[MicroBatch]:
        """This process's micro batches; every process has equally many."""
        world, budget = self.world, self._recipe.training.micro_batch_tokens
        for batch in micro_batches(samples, rows, budget, world.rank, world.size):
            self._check()
            yield batch.to(world.device)

    def _write_logprobs(self, model: ActionModel, samples: Samples, rows: Rows, into: Tensor) -> None:
        # FSDP keeps the memory into which it gathers weights, and tensors of inference mode could not be trained later.
        with torch.no_grad() if self.world.mesh else torch.inference_mode():
            for batch in self.micro_batches(samples, rows):
                into[batch.samples] = self._logprobs(model, batch, samples)
        self._share(into, rows)

    def _logprobs(self, model: ActionModel, batch: MicroBatch, samples: Samples) -> Tensor:
        logprobs: Tensor = model(batch, samples.mask.shape[1], self.temperature)
        return logprobs

    def _surrogate(self, samples: Samples, batch: MicroBatch, known: KnownLogprobs, new: Tensor) -> SurrogateSums:
        at = batch.samples
        reference = None if known.reference is None else known.reference[at]
        logprobs = ActionLogprobs(new, known.old[at], reference, samples.mask[at], samples.rollout_logprobs[at])
        return surrogate(logprobs, samples.advantages[at], self._kind)

    def _nothing(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Sums, and ratios of all samples, before any is seen."""
        sums = torch.zeros(7, dtype=torch.float64, device=self.world.device)
        return sums, samples.mask.new_zeros(2, len(samples))

    def _share(self, values: Tensor, rows: Rows) -> None:
        """Complete the given rows, of which each process has filled in its own and left the others at 0."""
        if self.world.size > 1 and len(rows):
            values[rows] = self.world.add(values[rows])


def _note(found: StepRatios, batch: MicroBatch, into: Tensor) -> None:
    into[0, batch.samples] = found.ratio.to(into.dtype)
    into[1, batch.samples] = found.clipped.to(into.dtype)
