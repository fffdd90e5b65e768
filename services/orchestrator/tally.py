"""What is told about groups and training steps as events, for the progress bar and the dashboard."""

import time
from collections import defaultdict
from dataclasses import dataclass, field

from pydantic import JsonValue

from shared.trajectory import Episode, Group

_SAMPLE_ACTIONS = 50
_SAMPLE_CHARS = 300


@dataclass(slots=True)
class _Counts:
    """Groups of one environment, or of all."""

    groups: int = 0
    dropped: int = 0
    episodes: int = 0
    won: int = 0
    steps: int = 0
    invalid_actions: int = 0
    score: float = 0.0

    def add(self, group: Group) -> None:
        self.groups += 1
        for episode in group.episodes:
            self.episodes += 1
            self.won += episode.won
            self.score += episode.score
            self.steps += len(episode.steps)
            self.invalid_actions += sum(not step.valid_action for step in episode.steps)

    def payload(self) -> dict[str, JsonValue]:
        episodes, steps = max(1, self.episodes), max(1, self.steps)
        return {
            "groups": self.groups,
            "dropped": self.dropped,
            "episodes": self.episodes,
            "success_rate": self.won / episodes,
            "mean_score": self.score / episodes,
            "mean_steps": self.steps / episodes,
            "invalid_action_rate": self.invalid_actions / steps,
        }


@dataclass(slots=True)
class StepTally:
    """The groups of one training step that this orchestrator made."""

    step: int
    started: float = field(default_factory=time.monotonic)
    tokens: int = 0
    prompt_tokens: int = 0
    staleness_sum: int = 0
    staleness_most: int = 0
    _all: _Counts = field(default_factory=_Counts)
    _by_environment: defaultdict[str, _Counts] = field(default_factory=lambda: defaultdict(_Counts))

    def add(self, group: Group) -> None:
        """Count a group in."""
        self._all.add(group)
        self._by_environment[group.environment].add(group)
        for step in (step for episode in group.episodes for step in episode.steps):
            self.tokens += len(step.token_ids)
            self.prompt_tokens += len(step.prompt_token_ids)
            # A version newer than the step is one that the trainer makes again after a restart.
            behind = max(0, self.step - int(step.policy_versions.min()))
            self.staleness_sum += behind
            self.staleness_most = max(self.staleness_most, behind)

    def drop(self, environment: str) -> None:
        """Count a group that was given up."""
        self._all.dropped += 1
        self._by_environment[environment].dropped += 1

    def payload(self, held_bytes: int) -> dict[str, JsonValue]:
        """The event ``rollout``: rates are shares from 0 to 1, or per second since the step's first group began."""
        seconds = time.monotonic() - self.started
        return {
            "step": self.step,
            **self._all.payload(),
            "tokens": self.tokens,
            "tokens_per_s": self.tokens / seconds,
            "prompts_per_s": self._all.steps / seconds,
            "prompt_tokens_per_s": self.prompt_tokens / seconds,
            "mean_staleness": self.staleness_sum / max(1, self._all.steps),
            "max_staleness": self.staleness_most,
            "held_bytes": held_bytes,
            "seconds": seconds,
            "environments": {name: counts.payload() for name, counts in sorted(self._by_environment.items())},
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
