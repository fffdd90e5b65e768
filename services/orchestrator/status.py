"""Where the orchestrator stands, as ``GET /v1/status`` tells it."""

import time
from enum import StrEnum
from typing import Protocol

from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.replica_status import EnvReplicaStatus, PolicyReplicaStatus, env_replicas, policy_replicas
from services.orchestrator.setup import Players, ServerSets
from shared.schemas.environment import Message


class Phase(StrEnum):
    """What the orchestrator is doing."""

    IDLE = "idle"
    """There is no active job."""
    STARTING = "starting"
    """Looking for its servers."""
    WAITING = "waiting"
    """For the trainer: its first policy version, or the next."""
    ROLLING = "rolling"
    """Making groups."""
    ENDED = "ended"
    """The job is over."""
    FAILED = "failed"


class GroupPlace(Message):
    """A group being made."""

    step: int
    index: int


class EnvironmentStatus(Message):
    """What was made of one environment."""

    groups_added: int
    groups_dropped: int
    episodes: int
    episodes_won: int
    mean_score: float
    """Over the finished episodes; 0 before the first."""


class Status(Message):
    """Answer of ``GET /v1/status``."""

    job: str | None
    """The job at work; null while there is none."""
    phase: Phase
    reason: str = ""
    """Why it failed, or what keeps it from going on."""
    policy_version: int | None
    """The version last seen; null before the trainer set one."""
    running: list[GroupPlace]
    episodes_in_flight: int
    groups_added: int
    groups_dropped: int
    episodes: int
    episodes_won: int
    episodes_retried: int
    steps: int
    tokens: int
    prompt_tokens: int
    buffer_bytes: int
    uptime_s: float
    environments: dict[str, EnvironmentStatus]
    env_replicas: list[EnvReplicaStatus]
    policy_replicas: list[PolicyReplicaStatus]


class Work(Protocol):
    """What `Progress` asks the rollouts."""

    @property
    def running(self) -> "list[tuple[int, int]]": ...

    @property
    def policy_version(self) -> int | None: ...


class Progress:
    """Which job is at work, and how it goes: from before its rollouts begin to after they end."""

    def __init__(self) -> None:
        """No job yet."""
        self.metrics = OrchestratorMetrics([])
        """Counters of the job at work, or of the latest."""
        self._job: str | None = None
        self._started = time.monotonic()
        self._sets: ServerSets | None = None
        self._work: Work | None = None
        self._players: Players | None = None
        self._ended = False
        self._reason = ""

    def connect(self, sets: ServerSets) -> None:
        """These are the servers."""
        self._sets = sets

    def start(self, job: str, metrics: OrchestratorMetrics) -> None:
        """A job is taken up; its counters begin at zero."""
        self._job, self.metrics = job, metrics
        self._work, self._players, self._ended, self._reason = None, None, False, ""

    def begin(self, work: Work, players: Players) -> None:
        """The servers are there; the rollouts begin."""
        self._work, self._players = work, players
        self._reason = ""

    def wait(self, reason: str) -> None:
        """The job cannot go on for now."""
        self._work, self._players, self._reason = None, None, reason

    def end(self, error: BaseException | None) -> None:
        """The rollouts are over."""
        self._ended, self._players = True, None
        self._reason = "" if error is None else f"{type(error).__name__}: {error}"

    def idle(self) -> None:
        """The job is over, and there is no other."""
        self._job, self._work, self._players, self._ended, self._reason = None, None, None, False, ""

    @property
    def phase(self) -> Phase:
        """What the orchestrator is doing."""
        if self._ended:
            return Phase.FAILED if self._reason else Phase.ENDED
        if self._job is None:
            return Phase.IDLE
        if self._work is None:
            return Phase.STARTING
        return Phase.ROLLING if self._work.running else Phase.WAITING

    @property
    def reason(self) -> str:
        """Why it failed, or cannot go on for now; empty when all is well."""
        return self._reason

    def status(self) -> Status:
        """Everything about now."""
        metrics = self.metrics
        running = [] if self._work is None else self._work.running
        version = None if self._work is None else self._work.policy_version
        sets, players = self._sets, self._players

        def gauge(name: str) -> int:
            return int(metrics.registry.get_sample_value(name) or 0)

        return Status(
            job=self._job,
            phase=self.phase,
            reason=self._reason,
            policy_version=version,
            running=[GroupPlace(step=step, index=index) for step, index in running],
            episodes_in_flight=gauge("gagpo_orchestrator_episodes_in_flight"),
            groups_added=int(metrics.total(metrics.groups_added)),
            groups_dropped=int(metrics.total(metrics.groups_dropped)),
            episodes=int(metrics.total(metrics.episodes)),
            episodes_won=int(metrics.total(metrics.episodes_won)),
            episodes_retried=int(metrics.total(metrics.episodes_retried)),
            steps=int(metrics.total(metrics.steps)),
            tokens=int(metrics.total(metrics.tokens)),
            prompt_tokens=int(metrics.total(metrics.prompt_tokens)),
            buffer_bytes=gauge("gagpo_orchestrator_buffer_bytes"),
            uptime_s=time.monotonic() - self._started,
            environments={name: _environment_status(metrics, name) for name in metrics.environments},
            env_replicas=[] if sets is None else env_replicas(sets, players),
            policy_replicas=[] if sets is None else policy_replicas(sets, players, version),
        )


def _environment_status(metrics: OrchestratorMetrics, name: str) -> EnvironmentStatus:
    episodes = int(metrics.total(metrics.episodes, name))
    return EnvironmentStatus(
        groups_added=int(metrics.total(metrics.groups_added, name)),
        groups_dropped=int(metrics.total(metrics.groups_dropped, name)),
        episodes=episodes,
        episodes_won=int(metrics.total(metrics.episodes_won, name)),
        mean_score=metrics.total(metrics.episode_scores, name) / max(1, episodes),
    )
