"""What is wrong with a system, in plain words, and the command that mends it. Reports in, findings out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from services.trainer.dashboard.health_sources import (
    EnvReport,
    OrchestratorReport,
    PolicyReport,
    RedisReport,
    ServerReport,
    SystemReport,
    TrainerReport,
)
from services.trainer.dashboard.words import size
from shared.schemas.job import JobState
from shared.service import Scope
from shared.service.binding import is_loopback

NEARLY_FULL = 0.9
LITTLE_DISK_BYTES = 2 * 1024**3

ENV_SERVER = ("env-server", "python -m services.env_server --port {port}")
"""An env server's container, and the command that starts one without."""


class Weight(StrEnum):
    """How bad it is."""

    STOPS = "stops training"
    SOON = "will stop training"
    HURTS = "slows or endangers training"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    service: str
    weight: Weight
    what: str
    """In plain words."""
    remedy: str
    """A command, or what to set."""


def findings(report: SystemReport) -> list[Finding]:
    """Everything that is wrong, the worst first."""
    found = [
        *_redis(report.redis),
        *_trainer(report.trainer),
        *(one for server in report.env for one in _env(server)),
        *_same_tasks(report.env),
        *(one for server in report.policy for one in _policy(server, report)),
        *_orchestrators(report),
    ]
    return sorted(found, key=lambda one: list(Weight).index(one.weight))


def _redis(redis: RedisReport) -> Iterator[Finding]:
    if redis.error is not None:
        remedy = (
            "redis-server --appendonly yes --maxmemory-policy noeviction" if _here(redis.url) else _compose("redis")
        )
        yield Finding("Redis", Weight.STOPS, f"Redis at {redis.url} does not answer: {redis.error}.", remedy)
        return
    if redis.eviction not in ("noeviction", ""):
        what = f"Redis may throw away groups and sessions when it is full: its policy is {redis.eviction}."
        yield Finding("Redis", Weight.HURTS, what, "redis-cli CONFIG SET maxmemory-policy noeviction")
    if redis.most_bytes and redis.memory_bytes > NEARLY_FULL * redis.most_bytes:
        what = f"Redis holds {size(redis.memory_bytes)} of the {size(redis.most_bytes)} that it may."
        yield Finding("Redis", Weight.SOON, what, f"redis-cli CONFIG SET maxmemory {2 * redis.most_bytes}")
    if not redis.appends:
        what = "Redis keeps everything in memory only: when it restarts, queued jobs and waiting groups are lost."
        yield Finding("Redis", Weight.HURTS, what, "redis-cli CONFIG SET appendonly yes")


def _trainer(trainer: TrainerReport) -> Iterator[Finding]:
    if trainer.disk_free_bytes < LITTLE_DISK_BYTES:
        what = f"Only {size(trainer.disk_free_bytes)} are free for checkpoints in {trainer.runs}."
        yield Finding("trainer", Weight.SOON, what, "gagpo job delete JOB, for jobs that are no longer needed")


def _env(env: EnvReport) -> Iterator[Finding]:
    yield from _server(env, "env server", *ENV_SERVER, Scope.ENVIRONMENTS)
    if env.error is None and env.workers_ready < env.workers and env.not_ready is None:
        what = f"{env.workers - env.workers_ready} of {env.workers} workers of {env.url} are not ready."
        yield Finding("env server", Weight.HURTS, what, "wait: lost workers are replaced; its log says why they were")


def _same_tasks(env: Sequence[EnvReport]) -> Iterator[Finding]:
    digests = {(one.name, one.data_digest) for server in env for one in server.environments}
    for name in sorted({name for name, _ in digests}):
        if sum(known == name for known, _ in digests) > 1:
            what = f"The env servers have different tasks of {name}; those unlike the first are not used."
            yield Finding("env server", Weight.HURTS, what, "start all of them with the same data folder")


def _policy(policy: PolicyReport, report: SystemReport) -> Iterator[Finding]:
    command = "python -m services.policy_server --model MODEL --port {port}"
    yield from _server(policy, "policy server", "policy-server", command, Scope.WEIGHTS)
    wanted = report.redis.policy_version
    if report.active is not None and policy.version is not None and wanted is not None and policy.version != wanted:
        what = f"{policy.url} holds version {policy.version} of the weights, the job at work is at {wanted}."
        remedy = "none needed if it just started: the trainer pushes the weights again with its next step"
        yield Finding("policy server", Weight.HURTS, what, remedy)


def _orchestrators(report: SystemReport) -> Iterator[Finding]:
    command = "python -m services.orchestrator --follow --port {port}"
    for one in report.orchestrators:
        yield from _server(one, "orchestrator", "orchestrator", command, Scope.JOBS)
        yield from _orchestrator(one, report)


def _orchestrator(one: OrchestratorReport, report: SystemReport) -> Iterator[Finding]:
    said, active = one.said, report.active
    if said is None:
        return
    if said.phase == "failed":
        what = f"The orchestrator at {one.url} gave up: {said.reason}."
        yield Finding("orchestrator", Weight.STOPS, what, _again(one, "orchestrator"))
    elif said.reason:
        yield Finding("orchestrator", Weight.HURTS, f"The orchestrator at {one.url} waits: {said.reason}.", "see above")
    if active is not None and active.state is JobState.RUNNING and said.job not in (active.id, None):
        what = f"The orchestrator at {one.url} works for {said.job}, the trainer for {active.id}."
        yield Finding("orchestrator", Weight.STOPS, what, _again(one, "orchestrator"))


def _server(server: ServerReport, name: str, container: str, command: str, scope: Scope) -> Iterator[Finding]:
    start = start_command(server.url, container, command)
    if server.status in (401, 403):
        what = f"The {name} at {server.url} refuses this service's token."
        yield Finding(name, Weight.STOPS, what, same_token(scope))
    elif server.error is not None:
        yield Finding(name, Weight.STOPS, f"The {name} at {server.url} does not answer: {server.error}.", start)
    elif server.not_ready is not None:
        what = f"The {name} at {server.url} is not ready: {server.not_ready}"
        yield Finding(name, Weight.STOPS, what, "wait a moment if it just started; its log says more")


def start_command(url: str, container: str, command: str) -> str:
    """What starts a service that should be at ``url``: ``command`` on this machine, else its container."""
    return command.format(port=urlsplit(url).port or 80) if _here(url) else _compose(container)


def same_token(scope: Scope) -> str:
    """What lets this service in at another one."""
    return f"give both the same {scope.variable} (or GAGPO_TOKEN), then start them again"


def _again(server: ServerReport, container: str) -> str:
    return "end it and start it again" if _here(server.url) else f"docker compose restart {container}"


def _here(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def _compose(container: str) -> str:
    return f"docker compose up -d {container}"
