"""The policy with its optimizer, on one process or sharded over several: rank 0 calls, the others follow."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from services.trainer.algorithms import make_algorithm
from services.trainer.algorithms.base import Floats
from services.trainer.batching import Samples
from services.trainer.critic import Critic, CriticStats, load_critic
from services.trainer.distributed import World
from services.trainer.lora import FrozenBase
from services.trainer.model import load_policy, load_reference
from services.trainer.optimizer_state import restore_optimizer, save_optimizer
from services.trainer.sharding import WholeCopy
from services.trainer.stopping import StopFlag, StoppedError
from services.trainer.update import Updater, UpdateStats
from services.trainer.value_samples import Prompts, ValueSamples
from shared.recipe import PpoSettings, Recipe

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Load:
    """Make a learner."""

    checkpoint: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """Take part in a training step's update."""

    samples: Samples
    step: int


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Take part in finding the critic's values."""

    prompts: Prompts


@dataclass(frozen=True, slots=True, eq=False)
class UpdateCritic:
    """Take part in the critic's update."""

    samples: ValueSamples
    step: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Send this process's shards of the weights to rank 0."""


@dataclass(frozen=True, slots=True)
class SaveOptimizer:
    """Write this process's shards of the optimizer's state."""

    folder: Path


@dataclass(frozen=True, slots=True)
class End:
    """Training is over, or stopped."""

    exit_code: int


class Learner:
    """Updates the policy, and the critic where the algorithm has one.

    Each method of rank 0's learner has the others' learners do the same.
    """

    def __init__(self, recipe: Recipe, checkpoint: Path | None, world: World, flag: StopFlag) -> None:
        """From ``checkpoint``, or from the recipe's model; every process reads the files for itself."""
        world.tell(Load(checkpoint))
        self._world = world
        torch.manual_seed(recipe.seed)
        self._base = FrozenBase.of(recipe.model.path) if recipe.model.lora_rank and world.rank == 0 else None
        if self._base is not None and checkpoint is not None:
            self._base.check(checkpoint / "trainer")
        policy = load_policy(recipe.model, checkpoint, world)
        self._copy = WholeCopy(policy, world)
        self._whole: PreTrainedModel | None = None
        loss = make_algorithm(recipe).loss
        reference = None
        if loss.kl_coefficient > 0:
            # What is under the adapters is the model that training began with.
            reference = policy if recipe.model.lora_rank else load_reference(recipe.model.path, recipe.model, world)
        # A process that stopped by itself would leave the others waiting.
        check = flag.check if world.size == 1 else partial(flag.check_together, world.highest)
        self._updater = Updater(recipe, loss, policy, reference, check, world)
        self._critic: Critic | None = None
        if isinstance(recipe.algorithm, PpoSettings):
            self._critic = load_critic(recipe, recipe.algorithm.critic, check, world)
        if checkpoint is not None:
            if self._critic is not None:
                self._critic.restore(checkpoint / "trainer")
            restore_optimizer(checkpoint / "trainer", policy, self._updater.optimizer)

    def update(self, samples: Samples, step: int) -> UpdateStats:
        """Train on a training step's samples; see `Updater.update`."""
        self._world.tell(Update(samples, step))
        self._whole = None
        return self._updater.update(samples, step)

    @property
    def has_critic(self) -> bool:
        """Whether the algorithm has one."""
        return self._critic is not None

    def values(self, prompts: Prompts) -> Floats:
        """The critic's value of every prompt, shape (N,)."""
        assert self._critic is not None
        self._world.tell(Judge(prompts))
        return self._critic.values(prompts)

    def update_critic(self, samples: ValueSamples, step: int) -> CriticStats:
        """Train the critic on a training step; see `Critic.update`."""
        assert self._critic is not None
        self._world.tell(UpdateCritic(samples, step))
        return self._critic.update(samples, step)

    def whole(self) -> PreTrainedModel:
        """The policy with all its weights, on rank 0. Changes with the next update."""
        if self._whole is None:
            self._world.tell(Gather())
            self._whole = self._copy.gather()
        return self._whole

    def save_optimizer(self, folder: Path) -> None:
        """Write the optimizer's state into ``folder``, which every process sees, and which weights are frozen."""
        self._world.tell(SaveOptimizer(folder))
        save_optimizer(folder, self._updater.policy, self._updater.optimizer)
        if self._base is not None:
            self._base.save(folder)
        if self._critic is not None:
            self._critic.save(folder)


def follow(recipe: Recipe, world: World, flag: StopFlag) -> int:
    """Do what rank 0 says until it says that it is over. Returns the exit code."""
    order = world.hear()
    assert isinstance(order, Load)
    learner = Learner(recipe, order.checkpoint, world, flag)
    while True:
        match world.hear():
            case Update(samples, step):
                with suppress(StoppedError):  # rank 0 was stopped at the same place, and says what comes of it
                    learner.update(samples, step)
            case Judge(prompts):
                with suppress(StoppedError):
                    learner.values(prompts)
            case UpdateCritic(value_samples, step):
                with suppress(StoppedError):
                    learner.update_critic(value_samples, step)
            case Gather():
                learner.whole()
            case SaveOptimizer(folder):
                learner.save_optimizer(folder)
            case End(exit_code):
                return exit_code
            case other:
                raise TypeError(f"rank 0 ordered {other!r}, which no process knows")
