"""What the orchestrator counts, for Prometheus and ``GET /v1/status``."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.trajectory import Group

_BY_ENVIRONMENT = ("environment",)


class OrchestratorMetrics:
    """Counters of one orchestrator, in a registry of their own. What is played is counted by environment."""

    def __init__(self, environments: Sequence[str]) -> None:
        """Everything starts at zero, for each of the environments by name."""
        self.environments = tuple(environments)
        self.registry = CollectorRegistry()
        self.groups_added = self._counter("groups_added", "Groups added to the buffer.")
        self.groups_dropped = self._counter("groups_dropped", "Groups given up because an episode failed for good.")
        self.episodes = self._counter("episodes", "Episodes finished.")
        self.episodes_won = self._counter("episodes_won", "Episodes won.")
        self.episode_scores = self._counter("episode_scores", "Sum of the scores of finished episodes.")
        self.episodes_retried = self._counter("episodes_retried", "Episodes played again after a failure.")
        self.steps = self._counter("steps", "Environment steps taken.")
        self.tokens = self._counter("sampled_tokens", "Tokens sampled.")
        self.prompt_tokens = self._counter("prompt_tokens", "Tokens of prompts.")
        self.episodes_in_flight = Gauge(
            "gagpo_orchestrator_episodes_in_flight", "Episodes being played.", registry=self.registry
        )
        self.policy_version = Gauge(
            "gagpo_orchestrator_policy_version", "Version being served.", registry=self.registry
        )
        self.buffer_bytes = Gauge(
            "gagpo_orchestrator_buffer_bytes", "Bytes of groups held in Redis.", registry=self.registry
        )
        self.group_seconds = Histogram(
            "gagpo_orchestrator_group_seconds",
            "Seconds from a group's first to its last step.",
            _BY_ENVIRONMENT,
            buckets=(0.5, 1, 2, 5, 10, 20, 60, 120, 300, 900),
            registry=self.registry,
        )

    def count_group(self, group: Group) -> None:
        """Count a finished group and all that is in it."""
        name = group.environment
        steps = [step for episode in group.episodes for step in episode.steps]
        self.groups_added.labels(name).inc()
        self.episodes.labels(name).inc(len(group.episodes))
        self.episodes_won.labels(name).inc(sum(episode.won for episode in group.episodes))
        # A counter only rises; an environment whose scores are negative has no use for their sum.
        self.episode_scores.labels(name).inc(max(0.0, sum(episode.score for episode in group.episodes)))
        self.steps.labels(name).inc(len(steps))
        self.tokens.labels(name).inc(sum(len(step.token_ids) for step in steps))
        self.prompt_tokens.labels(name).inc(sum(len(step.prompt_token_ids) for step in steps))
        self.group_seconds.labels(name).observe(group.generation_s)

    def total(self, counter: Counter, environment: str | None = None) -> float:
        """Where a counter stands: for one environment, or over all of them."""
        names = self.environments if environment is None else (environment,)
        samples = [sample for metric in counter.collect() for sample in metric.samples]
        return sum(
            sample.value
            for sample in samples
            if sample.name.endswith("_total") and sample.labels["environment"] in names
        )

    def _counter(self, name: str, about: str) -> Counter:
        counter = Counter(f"gagpo_orchestrator_{name}", about, _BY_ENVIRONMENT, registry=self.registry)
        for environment in self.environments:
            counter.labels(environment)
        return counter
