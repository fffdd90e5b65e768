"""The update of PPO: AdamW on the clipped surrogate, in epochs of minibatches."""

import numpy as np
import torch

from services.trainer.batching import Rows, Samples, minibatch_plan
from services.trainer.losses import SurrogateMeans
from services.trainer.movement import Movement, SampleRatios
from services.trainer.objective import KnownLogprobs, Objective
from services.trainer.optimizing import adamw, clipped_step, set_learning_rate
from shared.recipe import Recipe

_REMEDY = "lower optimizer.learning_rate or raise algorithm.kl_coefficient"


class ClippedUpdate:
    """Moves the weights by AdamW, once a minibatch."""

    def __init__(self, objective: Objective, recipe: Recipe) -> None:
        """Of a recipe this takes ``seed`` and the tables ``optimizer`` and ``training``."""
        self._objective = objective
        self._recipe = recipe
        self.optimizer: torch.optim.Optimizer = adamw(
            objective.policy, recipe.optimizer, recipe.optimizer.learning_rate
        )

    def set_learning_rate(self, step: int) -> float:
        """A linear rise over the first training steps."""
        settings = self._recipe.optimizer
        return set_learning_rate(self.optimizer, settings.learning_rate, settings.warmup_steps, step)

    def plan(self, samples: Samples, step: int) -> list[Rows]:
        """Whole episodes, shuffled anew in every epoch."""
        training = self._recipe.training
        return minibatch_plan(samples.episodes, training.minibatches, training.epochs, (self._recipe.seed, step))

    def move(self, samples: Samples, plan: list[Rows], known: KnownLogprobs) -> Movement:
        """A step of AdamW for each minibatch. Raises `FloatingPointError` for gradients that are no numbers."""
        world = self._objective.world
        sums, grad_norms = torch.zeros(7, dtype=torch.float64, device=world.device), []
        ratios = samples.mask.new_zeros(2, len(samples))
        for number, rows in enumerate(plan):
            found = self._objective.gradients(samples, rows, known, untouched=number == 0)
            sums += found.sums
            ratios[:, rows] = found.ratios
            grad_norms.append(clipped_step(self.optimizer, self._recipe.optimizer.max_grad_norm, _REMEDY))
        means = SurrogateMeans.of(sums, sum(map(len, plan)))
        return Movement(means, float(np.mean(grad_norms)), SampleRatios.of(world.add(ratios)))
