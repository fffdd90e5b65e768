"""From a training step's groups to samples: shape rewards, assign credit, leave out what carries no signal."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from services.trainer.algorithms import Algorithm, GroupCredit
from services.trainer.algorithms.base import Bools
from services.trainer.algorithms.diagnostics import CreditDiagnostics, diagnose
from services.trainer.batching import Samples, make_samples
from services.trainer.rewards import Rewards
from services.trainer.value_samples import Judged, ValueSamples, value_samples
from shared.trajectory import Episode, EpisodeEnd, Group, Step


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What came of some groups of a training step, all their episodes together; 0 where there are none."""

    groups: int
    left_out: int
    """Groups whose advantages are all zero."""
    all_fail_groups: int
    all_success_groups: int
    episodes: int
    environment_steps: int
    success_rate: float
    task_type_success: dict[str, float]
    mean_score: float
    mean_episode_length: float
    length_over_optimum: float | None
    """Mean over episodes won of their steps over the expert's; None where no such episode's optimum is known."""
    mean_reward: float
    """Mean over episodes of the sum of shaped rewards."""
    mean_return: float
    """Mean over episodes of the discounted return from the first step on."""
    invalid_action_share: float
    truncated_share: float
    """Share of episodes that did not end by the environment's rules."""
    credit: CreditDiagnostics


@dataclass(frozen=True, slots=True)
class TokenStats:
    """The sampled tokens of a training step."""

    tokens: int
    staleness_mean: float
    """Version being trained minus the version that sampled a token, mean over tokens."""
    staleness_max: int


@dataclass(frozen=True, slots=True, eq=False)
class StepData:
    """What one training step trains on, and what is known of it before."""

    samples: Samples
    trained: Bools
    """Which of the S steps of all groups the samples are, in order: those of groups with signal that have a sampled
    token. Shape (S,)."""
    credits: list[GroupCredit]
    stats: GroupStats
    """Of all groups."""
    by_environment: dict[str, GroupStats]
    tokens: TokenStats
    for_critic: ValueSamples | None
    """What the critic learns from; None where there is none."""

    def without_samples(self) -> "StepData":
        """The same with nothing for the policy to train on."""
        return replace(self, samples=self.samples.none(), trained=np.zeros_like(self.trained))


def assemble(
    groups: Sequence[Group], algorithm: Algorithm, rewards: Rewards, version: int, judged: Judged | None = None
) -> StepData:
    """Samples of all groups that carry signal, in order, for training the weights of ``version``."""
    values = judged.of_groups(groups) if judged else [[] for _ in groups]
    credits = algorithm.credit([rewards.credit_group(*pair) for pair in zip(groups, values, strict=True)])
    steps: list[Step] = []
    numbers: list[int] = []
    advantages = [np.zeros(0)]
    number = count()
    for group, credit in zip(groups, credits, strict=True):
        if not _has_signal(credit):
            continue
        for episode in group.episodes:
            steps += episode.steps
            numbers += [next(number)] * len(episode.steps)
        advantages.append(credit.advantages)
    names = sorted({group.environment for group in groups})
    places = {name: [place for place, group in enumerate(groups) if group.environment == name] for name in names}
    return StepData(
        samples=make_samples(steps, numbers, np.concatenate(advantages)),
        trained=_trained(groups, credits),
        credits=credits,
        stats=group_stats(groups, credits, rewards),
        by_environment={
            name: group_stats([groups[place] for place in own], [credits[place] for place in own], rewards)
            for name, own in places.items()
        },
        tokens=_token_stats(groups, version),
        for_critic=value_samples(judged, groups, credits, rewards) if judged else None,
    )


def group_stats(groups: Sequence[Group], credits: Sequence[GroupCredit], rewards: Rewards) -> GroupStats:
    """Statistics of groups and the credit that their steps got."""
    episodes = [episode for group in groups for episode in group.episodes]
    steps = [step for episode in episodes for step in episode.steps]
    by_type: dict[str, list[bool]] = {}
    for group in groups:
        by_type.setdefault(group.task_type or group.environment, []).extend(e.won for e in group.episodes)
    failed = [not any(episode.won for episode in group.episodes) for group in groups]
    return GroupStats(
        groups=len(groups),
        left_out=sum(not _has_signal(credit) for credit in credits),
        all_fail_groups=sum(failed),
        all_success_groups=sum(all(episode.won for episode in group.episodes) for group in groups),
        episodes=len(episodes),
        environment_steps=len(steps),
        success_rate=_mean([episode.won for episode in episodes]),
        task_type_success={kind: _mean(won) for kind, won in sorted(by_type.items())},
        mean_score=_mean([episode.score for episode in episodes]),
        mean_episode_length=_mean([len(episode.steps) for episode in episodes]),
        length_over_optimum=_length_over_optimum(episodes),
        mean_reward=sum(rewards.total(group) for group in groups) / max(len(episodes), 1),
        mean_return=_mean([value for credit in credits for value in credit.first_returns()]),
        invalid_action_share=_mean([not step.valid_action for step in steps]),
        truncated_share=_mean([episode.end is not EpisodeEnd.TERMINATED for episode in episodes]),
        credit=diagnose(credits, failed),
    )


def _length_over_optimum(episodes: Sequence[Episode]) -> float | None:
    ratios = [len(one.steps) / one.optimal_steps for one in episodes if one.won and one.optimal_steps]
    return _mean(ratios) if ratios else None


def _trained(groups: Sequence[Group], credits: Sequence[GroupCredit]) -> Bools:
    """Which steps `make_samples` keeps of the groups with signal. Shape (S,)."""
    return np.array(
        [
            _has_signal(credit) and len(step.token_ids) > 0
            for group, credit in zip(groups, credits, strict=True)
            for episode in group.episodes
            for step in episode.steps
        ],
        np.bool_,
    )


def _has_signal(credit: GroupCredit) -> bool:
    return bool(credit.advantages.any())


def _token_stats(groups: Sequence[Group], version: int) -> TokenStats:
    sampled = [step.policy_versions for group in groups for episode in group.episodes for step in episode.steps]
    staleness = version - np.concatenate(sampled or [np.zeros(0, np.int32)])
    return TokenStats(
        tokens=len(staleness),
        staleness_mean=float(staleness.mean()) if len(staleness) else 0.0,
        staleness_max=int(staleness.max(initial=0)),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
