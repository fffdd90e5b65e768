"""The training loop: read a step's groups, assign credit, update, push the weights, checkpoint (DESIGN §8)."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from services.trainer.algorithms import make_algorithm
from services.trainer.checkpoints import TrainerState, read_state
from services.trainer.credit_log import credit_record
from services.trainer.distributed import World
from services.trainer.learner import Learner
from services.trainer.metrics import Metrics, Phases, step_metrics
from services.trainer.outputs import Outputs
from services.trainer.rewards import Rewards
from services.trainer.step_data import StepData, assemble
from services.trainer.stopping import StopFlag, StoppedError
from services.trainer.update import UpdateStats
from services.trainer.value_samples import Judged, prompts_of
from shared.buffer import GroupReader
from shared.recipe import PpoSettings, Recipe
from shared.trajectory import Group

log = logging.getLogger(__name__)

BUFFER_NEARLY_FULL = 0.8
"""Share of ``rollout.buffer_bytes`` beyond which a checkpoint comes early, to make room."""


class Ending(StrEnum):
    """Why training is over."""

    STEPS = "all training steps are done"
    BUDGET = "the time budget is used up"
    ENVIRONMENT_STEPS = "the budget of environment steps is used up"


class FrontierError(RuntimeError):
    """The run's folder and Redis do not belong together; the message names the remedy."""


@dataclass(slots=True)
class Progress:
    """Where training stands."""

    version: int = 0
    """Training steps done: the version of the weights in hand, and the next training step to consume."""
    checkpoint: int | None = None
    """Version of the newest checkpoint."""
    consumed: list[tuple[int, int]] = field(default_factory=list)
    """(training step, group index) used since that checkpoint."""
    elapsed_s: float = 0.0
    environment_steps: int = 0
    metrics: Metrics = field(default_factory=dict)

    def state(self) -> TrainerState:
        """What a checkpoint of this moment says."""
        return TrainerState(
            version=self.version,
            consumed=list(self.consumed),
            previous_version=self.checkpoint,
            elapsed_s=self.elapsed_s,
            environment_steps=self.environment_steps,
            metrics=dict(self.metrics),
        )


class Worker:
    """Trains one job from its last checkpoint, or from the start, until its recipe says stop.

    With several processes this is rank 0's; the others `follow` its learner.
    """

    def __init__(
        self, recipe: Recipe, reader: GroupReader, outputs: Outputs, flag: StopFlag, deadline_s: float, world: World
    ) -> None:
        """Load the model. ``deadline_s`` bounds the wait for one training step's groups."""
        self._recipe = recipe
        self._reader = reader
        self._outputs = outputs
        self._flag = flag
        self._deadline_s = deadline_s
        self._algorithm = make_algorithm(recipe)
        self._rewards = Rewards(recipe)
        self._critic_warmup = recipe.algorithm.critic.warmup_steps if isinstance(recipe.algorithm, PpoSettings) else 0
        self._progress = Progress()
        checkpoint = outputs.checkpoints.latest()
        self._learner = Learner(recipe, checkpoint, world, flag)
        if checkpoint is not None:
            state = read_state(checkpoint)
            self._progress = Progress(
                state.version, state.version, [], state.elapsed_s, state.environment_steps, state.metrics
            )
        self._check_frontier()

    @property
    def version(self) -> int:
        """The version of the weights in hand."""
        return self._progress.version

    def run(self) -> Ending:
        """Train to the end. Raises `StoppedError` when asked to stop; then the same command goes on later."""
        progress = self._progress
        self._outputs.begin(progress.state())
        log.info("training from version %d to %d", progress.version, self._recipe.training.steps)
        self._outputs.publish(self._learner.whole(), progress.version)
        while (ending := self._ending()) is None:
            self._train_step()
        if progress.version != progress.checkpoint:
            self._checkpoint()
        return ending

    def _ending(self) -> Ending | None:
        training = self._recipe.training
        if self._progress.version >= training.steps:
            return Ending.STEPS
        if training.budget_s is not None and self._progress.elapsed_s >= training.budget_s:
            return Ending.BUDGET
        if training.environment_steps is not None and self._progress.environment_steps >= training.environment_steps:
            return Ending.ENVIRONMENT_STEPS
        return None

    def _train_step(self) -> None:
        progress, learner = self._progress, self._learner
        step, phases, start = progress.version, Phases(), time.perf_counter()
        groups = self._read(step)
        read = time.perf_counter()
        phases.wait = read - start
        judged = self._judge(groups)
        seen = time.perf_counter()
        phases.critic = seen - read
        data = assemble(groups, self._algorithm, self._rewards, step, judged)
        phases.advantages = time.perf_counter() - seen
        if step < self._critic_warmup:  # the policy waits until the critic's values mean something
            data = data.without_samples()
        update = learner.update(data.samples, step)
        phases.old_logprobs, phases.update = update.old_logprobs_s, update.update_s
        phases.push = self._outputs.publish(learner.whole(), step + 1)
        critic = None
        if data.for_critic is not None:  # last, because episodes of the new version can begin meanwhile
            critic = learner.update_critic(data.for_critic, step)
            phases.critic += critic.seconds
        phases.credit = self._keep_credit(step, groups, data, update)

        progress.version = step + 1
        progress.environment_steps += data.stats.environment_steps
        progress.consumed += [(step, group.index) for group in groups]
        phases.total = time.perf_counter() - start
        progress.elapsed_s += phases.total
        dropped, taken = len(self._reader.dropped(step)), progress.environment_steps
        told = partial(step_metrics, step, data, update, critic, dropped, taken)
        progress.metrics = told(phases)
        if self._checkpoint_due():
            progress.metrics |= told(replace(phases, checkpoint=self._checkpoint()))
        self._outputs.record(progress.metrics)
        log.info(
            "step %d: success %.1f%%, %d samples, %.1f s (waited %.1f s)",
            step,
            100 * data.stats.success_rate,
            len(data.samples),
            phases.total,
            phases.wait,
        )

    def _keep_credit(self, step: int, groups: Sequence[Group], data: StepData, update: UpdateStats) -> float:
        """Keep the credit record where the recipe asks for it. Returns the seconds it took."""
        start = time.perf_counter()
        if self._recipe.tracking.credit_steps:
            name = self._recipe.algorithm.name
            self._outputs.keep_credit(credit_record(step, name, groups, data, self._rewards, update.ratios))
        return time.perf_counter() - start

    def _judge(self, groups: Sequence[Group]) -> Judged | None:
        """What the critic thinks of every step; None where the algorithm has no critic."""
        if not self._learner.has_critic:
            return None
        prompts = prompts_of(groups)
        return Judged(prompts, self._learner.values(prompts))

    def _read(self, step: int) -> list[Group]:
        """The step's groups. Asked to stop while waiting, the weights in hand are whole: keep them first."""
        try:
            return self._reader.read_step(
                step,
                self._recipe.rollout.groups_per_step,
                self._deadline_s,
                on_wait=lambda there: self._flag.check_job(self._outputs.channel),
            )
        except StoppedError:
            if self._progress.version != (self._progress.checkpoint or 0):
                self._checkpoint()
            raise

    def _checkpoint_due(self) -> bool:
        limit = BUFFER_NEARLY_FULL * self._recipe.rollout.buffer_bytes
        return self._progress.version % self._recipe.training.checkpoint_every == 0 or self._reader.held_bytes() > limit

    def _checkpoint(self) -> float:
        progress, learner = self._progress, self._learner
        seconds = self._outputs.checkpoint(learner.whole(), learner.save_optimizer, progress.state(), self._reader)
        progress.checkpoint, progress.consumed = progress.version, []
        return seconds

    def _check_frontier(self) -> None:
        """Groups below Redis' frontier are gone, so the weights in hand must already contain them."""
        version, frontier = self._progress.version, self._reader.frontier()
        if frontier > version:
            raise FrontierError(
                f"Redis has released the groups of training steps below {frontier}, but the newest checkpoint in the "
                f"run's folder is of version {version}: bring the folder with its checkpoint back, or take a new job id"
            )
        # A trainer that was killed between its checkpoint and the release left the groups behind.
        self._reader.release(version)
