"""PPO's critic: the policy's network once more with a head of one number, which learns the value of every prompt.

It has weights, optimizer and checkpoint of its own. The value of a step is read at the last token of its prompt, where
the policy begins its action; prompts that share their beginning share forward passes as actions do.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import PreTrainedModel

from services.trainer.algorithms.base import Floats
from services.trainer.batching import MicroBatch, Rows, micro_batches, minibatch_plan
from services.trainer.distributed import ALONE, World
from services.trainer.model import computing_dtype, load_policy
from services.trainer.optimizer_state import restore_trained, save_trained
from services.trainer.optimizing import adamw, clipped_step, set_learning_rate
from services.trainer.sharding import shard_layers
from services.trainer.value_samples import Prompts, ValueSamples
from shared.recipe import CriticSettings, Recipe

FOLDER = "critic"
"""In a checkpoint's trainer folder: the critic's weights and moments."""

_REMEDY = "lower algorithm.critic.learning_rate"


@dataclass(frozen=True, slots=True)
class CriticStats:
    """What a critic's update did; values are in units of a success."""

    value_loss: float = 0.0
    """Mean over steps and epochs."""
    explained_variance: float = 0.0
    """1 − Var(target − V) / Var(target) of the values before the update; 0 where all targets are equal."""
    value_mean: float = 0.0
    """Mean of the values before the update."""
    grad_norm: float = 0.0
    """Mean over minibatches, before clipping."""
    seconds: float = 0.0


class ValueModel(nn.Module):
    """A language model without its output layer as a function from micro batches to values."""

    def __init__(self, body: PreTrainedModel) -> None:
        """Holds ``body`` itself. All values are 0 at first."""
        super().__init__()
        self.body = body
        self.head = nn.Linear(body.config.hidden_size, 1, device=body.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: MicroBatch) -> Tensor:
        """The value before each of the batch's B one-token actions, shape (B,). Its head computes in float32."""
        hidden = self.body(input_ids=batch.input_ids, use_cache=False).last_hidden_state
        values: Tensor = self.head(hidden[batch.rows, batch.positions].to(self.head.weight.dtype))
        return values.sum(-1)  # of the one number: FSDP does not like views, such as `squeeze` makes


class Critic:
    """Holds the value model and its optimizer. Of several processes each has one, made and called alike."""

    def __init__(
        self,
        recipe: Recipe,
        settings: CriticSettings,
        model: ValueModel,
        check: Callable[[], None] = lambda: None,
        world: World = ALONE,
    ) -> None:
        """``check`` is called before every micro batch and may raise. ``model`` is sharded here, in place."""
        self.model = model
        self._recipe = recipe
        self._settings = settings
        self._check = check
        self._world = world
        if world.mesh is not None:
            fully_shard(model.head, mesh=world.mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.float32))
        shard_layers(model, model.body, world, computing_dtype(recipe.model))
        self.optimizer = adamw(model, recipe.optimizer, settings.learning_rate)

    def values(self, prompts: Prompts) -> Floats:
        """The value of every prompt, shape (N,)."""
        values = torch.zeros(len(prompts), device=self._world.device)
        # As for log-probabilities: FSDP keeps memory that tensors of inference mode could not be trained in later.
        with torch.no_grad() if self._world.mesh else torch.inference_mode():
            for batch in self._micro_batches(prompts, np.arange(len(prompts))):
                values[batch.samples] = self.model(batch)
        return self._world.add(values).double().cpu().numpy()  # each process has left the others' at 0

    def update(self, samples: ValueSamples, step: int) -> CriticStats:
        """Learn from training step ``step``. Whatever is random derives from the recipe's seed and ``step``."""
        start = time.perf_counter()
        prompts, settings = samples.judged.prompts, self._recipe.optimizer
        set_learning_rate(self.optimizer, self._settings.learning_rate, settings.warmup_steps, step)
        if not len(prompts):
            return CriticStats()
        old, targets = (
            torch.from_numpy(numbers).float().to(self._world.device)
            for numbers in (samples.judged.values, samples.targets)
        )
        total, grad_norms = torch.zeros((), dtype=torch.float64, device=self._world.device), []
        passes = self._settings.epochs
        for rows in minibatch_plan(
            prompts.episodes, self._recipe.training.minibatches, passes, (self._recipe.seed, step)
        ):
            total += self._minibatch(prompts, rows, old, targets)
            grad_norms.append(clipped_step(self.optimizer, settings.max_grad_norm, _REMEDY))
        return CriticStats(
            value_loss=float(self._world.add(total)) / (len(prompts) * passes),
            explained_variance=explained_variance(samples.judged.values, samples.targets),
            value_mean=float(samples.judged.values.mean()),
            grad_norm=float(np.mean(grad_norms)),
            seconds=time.perf_counter() - start,
        )

    def save(self, trainer_folder: Path) -> None:
        """Write weights and moments. Every process calls it, and writes its shards."""
        save_trained(trainer_folder / FOLDER, self.model, self.optimizer)

    def restore(self, trainer_folder: Path) -> None:
        """Put back what `save` wrote, however many processes it was."""
        restore_trained(trainer_folder / FOLDER, self.model, self.optimizer)

    def _minibatch(self, prompts: Prompts, rows: Rows, old: Tensor, targets: Tensor) -> Tensor:
        """Gradients of one minibatch. Returns the sum of this process's losses of it."""
        total = torch.zeros((), dtype=torch.float64, device=self._world.device)
        for batch in self._micro_batches(prompts, rows):
            at = batch.samples
            loss = value_loss(self.model(batch), old[at], targets[at], self._settings.value_clip)
            # FSDP takes the mean over processes where a sum is wanted.
            torch.autograd.backward(loss * self._world.size / len(rows))
            total += loss.detach()
        return total

    def _micro_batches(self, prompts: Prompts, rows: Rows) -> Iterator[MicroBatch]:
        """This process's micro batches; every process has equally many."""
        world, budget = self._world, self._recipe.training.micro_batch_tokens
        for batch in micro_batches(prompts, rows, budget, world.rank, world.size):
            self._check()
            yield batch.to(world.device)


def load_critic(recipe: Recipe, settings: CriticSettings, check: Callable[[], None], world: World) -> Critic:
    """A critic that knows nothing yet, on the network of the recipe's model (with adapters where the policy has them).

    Raises what `load_policy` raises.
    """
    body = load_policy(recipe.model, None, world).base_model
    return Critic(recipe, settings, ValueModel(body), check, world)


def value_loss(values: Tensor, old: Tensor, targets: Tensor, clip: float | None) -> Tensor:
    """½ (V − target)², summed over steps; every tensor has shape (B,).

    A value that has moved more than ``clip`` away from the old one, towards its target, has no gradient any more: the
    larger loss of the value and of the value held within the clip counts (arXiv 2005.12729, section 3).
    """
    losses = (values - targets).square()
    if clip is not None:
        held = old + (values - old).clamp(-clip, clip)
        losses = torch.maximum(losses, (held - targets).square())
    return 0.5 * losses.sum()


def explained_variance(values: Floats, targets: Floats) -> float:
    """1 − Var(target − V) / Var(target): 1 is perfect, 0 no better than a constant. 0 where all targets are equal."""
    spread = float(np.var(targets))
    return 1.0 - float(np.var(targets - values)) / spread if spread > 0 else 0.0
