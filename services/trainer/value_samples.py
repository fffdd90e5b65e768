"""What a critic sees of a training step: the prompt before every action, and what its value should have been.

Values are in units of a success: 1 is what winning pays at once, whatever an environment's ``reward.success`` is. So
they have a sane scale for a network to learn, and an environment that pays little weighs as much as one that pays well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from services.trainer.algorithms.base import Floats, GroupCredit
from services.trainer.batching import Rows
from services.trainer.rewards import Rewards
from shared.trajectory import Group


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """The N steps of a training step, group by group, as `services.trainer.batching.micro_batches` takes them."""

    sequences: tuple[NDArray[np.int64], ...]
    """Each prompt and one token more, which stands for the action: it is never an input."""
    prompt_lengths: Rows
    """Shape (N,)."""
    episodes: Rows
    """Number of the step's episode. Shape (N,)."""

    def __len__(self) -> int:
        return len(self.sequences)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What the critic thought of a training step before it learnt from it."""

    prompts: Prompts
    values: Floats
    """V of the state before every step, in units of a success. Shape (N,)."""

    def of_groups(self, groups: Sequence[Group]) -> list[list[float]]:
        """The values of each group's steps."""
        values = iter(self.values.tolist())
        sizes = [sum(len(episode.steps) for episode in group.episodes) for group in groups]
        return [list(islice(values, size)) for size in sizes]


@dataclass(frozen=True, slots=True, eq=False)
class ValueSamples:
    """What a critic learns from: every step, also those of groups that the policy learns nothing from."""

    judged: Judged
    targets: Floats
    """λ-returns A + V, in units of a success. Shape (N,)."""


def prompts_of(groups: Sequence[Group]) -> Prompts:
    """The prompts of all steps."""
    episodes = [episode for group in groups for episode in group.episodes]
    prompts = [step.prompt_token_ids.astype(np.int64) for episode in episodes for step in episode.steps]
    return Prompts(
        sequences=tuple(np.append(prompt, 0) for prompt in prompts),
        prompt_lengths=np.array([len(prompt) for prompt in prompts], np.int64),
        episodes=np.repeat(np.arange(len(episodes)), [len(episode.steps) for episode in episodes]),
    )


def value_samples(
    judged: Judged, groups: Sequence[Group], credits: Sequence[GroupCredit], rewards: Rewards
) -> ValueSamples:
    """The λ-returns that credit assignment found on the critic's values, as its targets."""
    targets = [
        (credit.raw + credit.values) / rewards.of(group).success for group, credit in zip(groups, credits, strict=True)
    ]
    return ValueSamples(judged, np.concatenate([np.zeros(0), *targets]))
