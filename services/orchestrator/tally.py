"""What is told about groups and training steps as events, for the progress bar and the dashboard."""

from collections.abc import Sequence

import msgspec
from pydantic import JsonValue

from shared.trajectory import Episode, Group

_SAMPLE_ACTIONS = 50
_SAMPLE_CHARS = 300


class GroupFigures(msgspec.Struct, frozen=True):
    """What one group adds to the figures of its training step. It lies in Redis until all of the step's groups do."""

    environment: str
    began: float
    """Unix time, seconds."""
    ended: float
    dropped: bool = False
    episodes: int = 0
    won: int = 0
    score: float = 0.0
    steps: int = 0
    invalid_actions: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    staleness_sum: int = 0
    staleness_most: int = 0


def group_figures(group: Group, began: float, ended: float) -> GroupFigures:
    """The figures of a group that was made."""
    steps = [step for episode in group.episodes for step in episode.steps]
    # A version newer than the step is one that the trainer makes again after a restart.
    behind = [max(0, group.step - int(step.policy_versions.min())) for step in steps]
    return GroupFigures(
        environment=group.environment,
        began=began,
        ended=ended,
        episodes=len(group.episodes),
        won=sum(episode.won for episode in group.episodes),
        score=sum(episode.score for episode in group.episodes),
        steps=len(steps),
        invalid_actions=sum(not step.valid_action for step in steps),
        tokens=sum(len(step.token_ids) for step in steps),
        prompt_tokens=sum(len(step.prompt_token_ids) for step in steps),
        staleness_sum=sum(behind),
        staleness_most=max(behind, default=0),
    )


def encode_figures(figures: GroupFigures) -> bytes:
    """As JSON."""
    return msgspec.json.encode(figures)


def decode_figures(encoded: Sequence[bytes]) -> list[GroupFigures]:
    """From what `encode_figures` made."""
    return [msgspec.json.decode(one, type=GroupFigures) for one in encoded]


def rollout_payload(step: int, groups: Sequence[GroupFigures], held_bytes: int) -> dict[str, JsonValue]:
    """The event ``rollout``: rates are shares from 0 to 1, or per second since the step's first group began."""
    seconds = max(1e-9, max(group.ended for group in groups) - min(group.began for group in groups))
    steps = sum(group.steps for group in groups)
    tokens = sum(group.tokens for group in groups)
    prompt_tokens = sum(group.prompt_tokens for group in groups)
    names = sorted({group.environment for group in groups})
    return {
        "step": step,
        **_results(groups),
        "tokens": tokens,
        "tokens_per_s": tokens / seconds,
        "prompts_per_s": steps / seconds,
        "prompt_tokens_per_s": prompt_tokens / seconds,
        "mean_staleness": sum(group.staleness_sum for group in groups) / max(1, steps),
        "max_staleness": max(group.staleness_most for group in groups),
        "held_bytes": held_bytes,
        "seconds": seconds,
        "environments": {name: _results([group for group in groups if group.environment == name]) for name in names},
    }


def _results(groups: Sequence[GroupFigures]) -> dict[str, JsonValue]:
    episodes = sum(group.episodes for group in groups)
    steps = sum(group.steps for group in groups)
    return {
        "groups": sum(not group.dropped for group in groups),
        "dropped": sum(group.dropped for group in groups),
        "episodes": episodes,
        "success_rate": sum(group.won for group in groups) / max(1, episodes),
        "mean_score": sum(group.score for group in groups) / max(1, episodes),
        "mean_steps": steps / max(1, episodes),
        "invalid_action_rate": sum(group.invalid_actions for group in groups) / max(1, steps),
    }


def group_payload(group: Group) -> dict[str, JsonValue]:
    """The event ``group``, with one of its episodes as a sample."""
    episodes = group.episodes
    return {
        "step": group.step,
        "index": group.index,
        "environment": group.environment,
        "task_id": group.task_id,
        "task_type": group.task_type,
        "episodes": len(episodes),
        "success_rate": sum(episode.won for episode in episodes) / len(episodes),
        "mean_steps": sum(len(episode.steps) for episode in episodes) / len(episodes),
        "mean_score": sum(episode.score for episode in episodes) / len(episodes),
        "seconds": group.generation_s,
        "sample": _sample(episodes[0]),
    }


def _sample(episode: Episode) -> dict[str, JsonValue]:
    turns: list[JsonValue] = [
        {"observation": step.observation[:_SAMPLE_CHARS], "action": step.action[:_SAMPLE_CHARS]}
        for step in episode.steps[:_SAMPLE_ACTIONS]
    ]
    return {"won": episode.won, "end": episode.end.value, "steps": turns}
