"""From a training step's groups to samples: shape rewards, assign credit, leave out what carries no signal."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from services.trainer.algorithms import Algorithm, GroupCredit
from services.trainer.algorithms.diagnostics import CreditDiagnostics, diagnose
from services.trainer.batching import Samples, make_samples
from services.trainer.rewards import credit_group, shaped_reward
from shared.recipe import RewardSettings
from shared.trajectory import EpisodeEnd, Group, Step


@dataclass(frozen=True, slots=True, eq=False)
class StepData:
    """What one training step trains on, and what is known of it before."""

    samples: Samples
    credits: list[GroupCredit]
    left_out: int
    """Groups whose advantages are all zero."""
    diagnostics: CreditDiagnostics


@dataclass(frozen=True, slots=True)
class RolloutStats:
    """The episodes of a training step, all groups together; 0 where there are none."""

    episodes: int
    success_rate: float
    task_type_success: dict[str, float]
    mean_episode_length: float
    mean_reward: float
    """Mean over episodes of the sum of shaped rewards."""
    invalid_action_share: float
    truncated_share: float
    """Share of episodes that did not end by the environment's rules."""
    all_fail_groups: int
    all_success_groups: int
    staleness_mean: float
    """Version being trained minus the version that sampled a token, mean over tokens."""
    staleness_max: int
    tokens: int
    """Sampled tokens."""


def assemble(groups: Sequence[Group], algorithm: Algorithm, rewards: RewardSettings) -> StepData:
    """Samples of all groups that carry signal, in order."""
    credits = algorithm.credit([credit_group(group, rewards) for group in groups])
    steps: list[Step] = []
    numbers: list[int] = []
    advantages = [np.zeros(0)]
    left_out, number = 0, count()
    for group, credit in zip(groups, credits, strict=True):
        if not credit.advantages.any():
            left_out += 1
            continue
        for episode in group.episodes:
            steps += episode.steps
            numbers += [next(number)] * len(episode.steps)
        advantages.append(credit.advantages)
    samples = make_samples(steps, numbers, np.concatenate(advantages))
    return StepData(samples, credits, left_out, diagnose(credits, [not any_won(group) for group in groups]))


def any_won(group: Group) -> bool:
    """Whether an episode of the group succeeded."""
    return any(episode.won for episode in group.episodes)


def rollout_stats(groups: Sequence[Group], version: int, rewards: RewardSettings) -> RolloutStats:
    """Statistics of the episodes that version ``version`` is trained on."""
    episodes = [episode for group in groups for episode in group.episodes]
    steps = [step for episode in episodes for step in episode.steps]
    by_type: dict[str, list[bool]] = {}
    for group in groups:
        by_type.setdefault(group.task_type or group.environment, []).extend(e.won for e in group.episodes)
    staleness = version - np.concatenate([step.policy_versions for step in steps] or [np.zeros(0, np.int32)])
    return RolloutStats(
        episodes=len(episodes),
        success_rate=_mean([episode.won for episode in episodes]),
        task_type_success={kind: _mean(won) for kind, won in sorted(by_type.items())},
        mean_episode_length=_mean([len(episode.steps) for episode in episodes]),
        mean_reward=sum(shaped_reward(step, rewards) for step in steps) / max(len(episodes), 1),
        invalid_action_share=_mean([not step.valid_action for step in steps]),
        truncated_share=_mean([episode.end is not EpisodeEnd.TERMINATED for episode in episodes]),
        all_fail_groups=sum(not any_won(group) for group in groups),
        all_success_groups=sum(all(episode.won for episode in group.episodes) for group in groups),
        staleness_mean=float(staleness.mean()) if len(staleness) else 0.0,
        staleness_max=int(staleness.max(initial=0)),
        tokens=len(staleness),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
