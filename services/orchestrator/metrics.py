"""What the orchestrator counts, for Prometheus and ``GET /v1/status``."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.trajectory import Group


class OrchestratorMetrics:
    """Counters of one orchestrator, in a registry of their own."""

    def __init__(self) -> None:
        """Everything starts at zero."""
        self.registry = CollectorRegistry()
        self.groups_added = Counter(
            "gagpo_orchestrator_groups_added", "Groups added to the buffer.", registry=self.registry
        )
        self.groups_dropped = Counter(
            "gagpo_orchestrator_groups_dropped",
            "Groups given up because an episode failed for good.",
            registry=self.registry,
        )
        self.episodes = Counter("gagpo_orchestrator_episodes", "Episodes finished.", registry=self.registry)
        self.episodes_won = Counter("gagpo_orchestrator_episodes_won", "Episodes won.", registry=self.registry)
        self.episodes_retried = Counter(
            "gagpo_orchestrator_episodes_retried", "Episodes played again after a failure.", registry=self.registry
        )
        self.episodes_in_flight = Gauge(
            "gagpo_orchestrator_episodes_in_flight", "Episodes being played.", registry=self.registry
        )
        self.steps = Counter("gagpo_orchestrator_steps", "Environment steps taken.", registry=self.registry)
        self.tokens = Counter("gagpo_orchestrator_sampled_tokens", "Tokens sampled.", registry=self.registry)
        self.prompt_tokens = Counter("gagpo_orchestrator_prompt_tokens", "Tokens of prompts.", registry=self.registry)
        self.policy_version = Gauge(
            "gagpo_orchestrator_policy_version", "Version being served.", registry=self.registry
        )
        self.buffer_bytes = Gauge(
            "gagpo_orchestrator_buffer_bytes", "Bytes of groups held in Redis.", registry=self.registry
        )
        self.group_seconds = Histogram(
            "gagpo_orchestrator_group_seconds",
            "Seconds from a group's first to its last step.",
            buckets=(0.5, 1, 2, 5, 10, 20, 60, 120, 300, 900),
            registry=self.registry,
        )

    def count_group(self, group: Group) -> None:
        """Count a finished group and all that is in it."""
        steps = [step for episode in group.episodes for step in episode.steps]
        self.episodes.inc(len(group.episodes))
        self.episodes_won.inc(sum(episode.won for episode in group.episodes))
        self.steps.inc(len(steps))
        self.tokens.inc(sum(len(step.token_ids) for step in steps))
        self.prompt_tokens.inc(sum(len(step.prompt_token_ids) for step in steps))
        self.group_seconds.observe(group.generation_s)
