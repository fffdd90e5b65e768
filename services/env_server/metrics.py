"""Prometheus metrics of one server, in a registry of their own so that two servers may live in one process."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class EnvServerMetrics:
    """All metrics by name; the help texts say what they count."""

    def __init__(self) -> None:
        """All at zero."""
        self.registry = CollectorRegistry()
        self.steps = Counter(
            "gagpo_env_steps_total", "Steps taken, without retries", ["environment"], registry=self.registry
        )
        self.opened = Counter(
            "gagpo_env_sessions_opened_total", "Sessions opened", ["environment"], registry=self.registry
        )
        self.ended = Counter(
            "gagpo_env_sessions_ended_total", "Sessions that left: deleted, expired", ["reason"], registry=self.registry
        )
        self.episodes = Counter(
            "gagpo_env_episodes_total",
            "Episodes that ended: terminated, truncated",
            ["environment", "end"],
            registry=self.registry,
        )
        self.retries = Counter(
            "gagpo_env_step_retries_total", "Steps answered from what is stored", registry=self.registry
        )
        self.rebuilt = Counter("gagpo_env_sessions_rebuilt_total", "Sessions rebuilt by replay", registry=self.registry)
        self.conflicts = Counter(
            "gagpo_env_journal_conflicts_total", "Appends refused: another replica was faster", registry=self.registry
        )
        self.step_problems = Counter(
            "gagpo_env_step_problems_total",
            "Steps answered with a problem, also in batches",
            ["kind"],
            registry=self.registry,
        )
        self.workers_lost = Counter(
            "gagpo_env_workers_lost_total", "Workers that died: deadline, crash", ["reason"], registry=self.registry
        )
        self.step_seconds = Histogram(
            "gagpo_env_step_request_seconds",
            "Time of a step or batch of steps, journal included",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.open_seconds = Histogram(
            "gagpo_env_open_request_seconds",
            "Time of opening a session or group, journal included",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.sessions = Gauge("gagpo_env_sessions", "Sessions held", registry=self.registry)
        self.pending = Gauge("gagpo_env_pending_items", "Steps and openings in hand", registry=self.registry)
        self.workers_ready = Gauge("gagpo_env_workers_ready", "Workers that take calls", registry=self.registry)
