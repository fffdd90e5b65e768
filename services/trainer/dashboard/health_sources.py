"""Asking the services how they are. One that does not answer in time is a report too; nothing here raises for it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict, ValidationError
from redis.exceptions import RedisError

from services.trainer.server.service import TrainerService
from shared.addresses import Address, address, host_of, look_up
from shared.buffer import JobKeys, connect_async
from shared.schemas.environment import EnvironmentDescription, EnvironmentList
from shared.schemas.job import Job, JobState
from shared.schemas.policy import WeightState
from shared.service import Scope, authorization
from shared.telemetry import without_secrets

DEADLINE_S = 5.0
"""For all questions to one service together."""


@dataclass(slots=True)
class RedisReport:
    """What Redis says of itself, and what it holds for the job at work."""

    url: str
    error: str | None = None
    version: str = ""
    memory_bytes: int = 0
    most_bytes: int = 0
    """0 for no bound."""
    eviction: str = ""
    appends: bool = False
    """Whether it writes an append-only file."""
    clients: int = 0
    buffer_bytes: int = 0
    """Payloads of groups that no checkpoint covers yet."""
    buffer_groups: int = 0
    policy_version: int | None = None
    """Of the job at work."""


@dataclass(slots=True)
class ServerReport:
    """What any of the HTTP services says."""

    url: str
    error: str | None = None
    """Why it could not be asked."""
    status: int | None = None
    """HTTP status of the question that ``error`` is about, where there was an answer."""
    not_ready: str | None = None
    """Its own words on why it is not ready."""


@dataclass(slots=True)
class EnvReport(ServerReport):
    """An env server."""

    workers: int = 0
    workers_ready: int = 0
    sessions: int | None = None
    environments: list[EnvironmentDescription] = field(default_factory=list)


@dataclass(slots=True)
class PolicyReport(ServerReport):
    """A policy server."""

    model: str = ""
    version: int | None = None
    digest: str = ""
    running: int | None = None
    """Requests that it works on."""
    waiting: int | None = None


class EnvReplica(BaseModel):
    """What an orchestrator knows of an env server."""

    model_config = ConfigDict(extra="ignore")
    url: str
    reachable: bool | None = None
    same_tasks: bool | None = None


class OrchestratorStatus(BaseModel):
    """What is shown of ``GET /v1/status``; a later release may say more."""

    model_config = ConfigDict(extra="ignore")
    job: str | None
    phase: str
    reason: str = ""
    episodes_in_flight: int = 0
    groups_added: int = 0
    groups_dropped: int = 0
    uptime_s: float = 0.0
    env_replicas: list[EnvReplica] = []


@dataclass(slots=True)
class OrchestratorReport(ServerReport):
    """An orchestrator."""

    said: OrchestratorStatus | None = None


@dataclass(slots=True)
class TrainerReport:
    """This service."""

    job: str | None
    """That its supervisor has in hand."""
    runs: Path
    disk_free_bytes: int
    disk_bytes: int


@dataclass(slots=True)
class SystemReport:
    """All of them."""

    trainer: TrainerReport
    redis: RedisReport
    jobs: list[Job]
    env: list[EnvReport]
    policy: list[PolicyReport]
    orchestrators: list[OrchestratorReport]

    @property
    def active(self) -> Job | None:
        """The job at work."""
        return next((job for job in self.jobs if job.state in (JobState.RUNNING, JobState.INTERRUPTED)), None)


Report = TypeVar("Report", bound=ServerReport)
Answer = TypeVar("Answer", bound=BaseModel)


class _WorkersReady(BaseModel):
    model_config = ConfigDict(extra="ignore")
    workers: int
    workers_ready: int


class _AnswerError(Exception):
    """A server gave no answer that can be used."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


async def look(service: TrainerService) -> SystemReport:
    """Ask every service at once; ready after little more than `DEADLINE_S`."""
    settings, client = service.settings, service.servers.client
    (redis, jobs), env, policy, orchestrators = await asyncio.gather(
        _redis(service),
        _each(client, settings.env_urls, EnvReport, _env),
        _each(client, settings.policy_urls, PolicyReport, _policy),
        _each(client, settings.orchestrator_urls, OrchestratorReport, _orchestrator),
    )
    disk = await asyncio.to_thread(shutil.disk_usage, settings.runs)
    trainer = TrainerReport(service.supervisor.job, settings.runs.resolve(), disk.free, disk.total)
    return SystemReport(trainer, redis, jobs, env, policy, orchestrators)


async def orchestrators(service: TrainerService) -> list[OrchestratorReport]:
    """Ask the orchestrators alone."""
    return await _each(service.servers.client, service.settings.orchestrator_urls, OrchestratorReport, _orchestrator)


async def _redis(service: TrainerService) -> tuple[RedisReport, list[Job]]:
    url = service.settings.redis_url
    report = RedisReport(without_secrets(url))
    client = connect_async(url, retry_deadline_s=0)
    try:
        async with asyncio.timeout(DEADLINE_S):
            _fill(report, await client.info())
            jobs = await service.store.all()
            active = await service.store.active()
            if active is not None:
                keys = JobKeys(active)
                held, groups, version = await (
                    client.pipeline().get(keys.held_bytes).xlen(keys.groups).get(keys.policy_version).execute()
                )
                report.buffer_bytes, report.buffer_groups = int(held or 0), int(groups)
                report.policy_version = None if version is None else int(version)
            return report, jobs
    except (RedisError, OSError) as error:
        report.error = _reason(error)
        return report, []
    finally:
        await client.aclose()


def _fill(report: RedisReport, info: Mapping[str, str | int | float]) -> None:
    report.version = str(info.get("redis_version", ""))
    report.memory_bytes = int(info.get("used_memory", 0))
    report.most_bytes = int(info.get("maxmemory", 0))
    report.eviction = str(info.get("maxmemory_policy", ""))
    report.appends = bool(int(info.get("aof_enabled", 0)))
    report.clients = int(info.get("connected_clients", 0))


async def _each(
    client: httpx.AsyncClient,
    urls: Sequence[str],
    kind: type[Report],
    ask: Callable[["_Server", Report], Awaitable[None]],
) -> list[Report]:
    """A report on every replica behind the URLs, made by ``ask`` within the deadline."""

    async def one(replica: Address, shown: str) -> Report:
        report = kind(shown)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await ask(_Server(client, replica), report)
        except _AnswerError as error:
            report.error, report.status = str(error), error.status
        except OSError as error:
            report.error = _reason(error)
        return report

    async def behind(url: str) -> list[Report]:
        host = host_of(url)
        try:
            async with asyncio.timeout(DEADLINE_S):
                ips = [] if host is None else await look_up(host)
        except OSError:
            return [kind(url, error=f"the name {host} leads nowhere")]
        if len(ips) <= 1:
            return [await one(address(url), url)]
        replicas = [address(url, ip) for ip in ips]
        return await asyncio.gather(*(one(replica, replica.url) for replica in replicas))

    return [report for reports in await asyncio.gather(*map(behind, urls)) for report in reports]


class _Server:
    """One replica, asked by GET."""

    def __init__(self, client: httpx.AsyncClient, at: Address) -> None:
        self._client, self._at = client, at

    async def get(self, path: str, scope: Scope | None = None) -> httpx.Response:
        """Its answer, whatever the status. Raises `_AnswerError` where there is none."""
        headers = {"host": self._at.host} | ({} if scope is None else authorization(scope))
        extensions = {} if self._at.tls_name is None else {"sni_hostname": self._at.tls_name}
        try:
            return await self._client.get(self._at.url + path, headers=headers, extensions=extensions)
        except httpx.TransportError as error:
            raise _AnswerError(_reason(error)) from error

    async def read(self, path: str, kind: type[Answer], scope: Scope | None = None) -> Answer:
        """A good answer. Raises `_AnswerError` for any other."""
        answer = await self.get(path, scope)
        if not answer.is_success:
            raise _AnswerError(f"GET {path}: HTTP {answer.status_code} {_detail(answer)}", answer.status_code)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise _AnswerError(f"GET {path}: not the answer of such a server: {error.errors()[0]['msg']}") from error

    async def why_not_ready(self) -> str | None:
        """None where it is ready."""
        answer = await self.get("/readyz")
        return None if answer.is_success else _detail(answer) or f"HTTP {answer.status_code}"

    async def figures(self) -> dict[str, float]:
        """Name → sum over all labels, of its Prometheus metrics; empty for a server that has none."""
        answer = await self.get("/metrics")
        found: dict[str, float] = {}
        try:
            for family in text_string_to_metric_families(answer.text) if answer.is_success else ():
                for sample in family.samples:
                    found[sample.name] = found.get(sample.name, 0.0) + sample.value
        except ValueError:  # not Prometheus' format; the figures are extras
            return {}
        return found


async def _env(server: _Server, report: EnvReport) -> None:
    report.not_ready = await server.why_not_ready()
    health = await server.read("/healthz", _WorkersReady)
    report.workers, report.workers_ready = health.workers, health.workers_ready
    report.sessions = _whole((await server.figures()).get("gagpo_env_sessions"))
    report.environments = (await server.read("/v1/environments", EnvironmentList, Scope.ENVIRONMENTS)).environments


async def _policy(server: _Server, report: PolicyReport) -> None:
    report.not_ready = await server.why_not_ready()
    weights = await server.read("/v1/weights", WeightState, Scope.WEIGHTS)
    report.model, report.version, report.digest = weights.model, weights.version, weights.digest
    figures = await server.figures()
    report.running = _whole(figures.get("vllm:num_requests_running"))
    report.waiting = _whole(figures.get("vllm:num_requests_waiting"))


async def _orchestrator(server: _Server, report: OrchestratorReport) -> None:
    report.not_ready = await server.why_not_ready()
    report.said = await server.read("/v1/status", OrchestratorStatus, Scope.JOBS)


def _whole(figure: float | None) -> int | None:
    return None if figure is None else int(figure)


def _detail(answer: httpx.Response) -> str:
    """What a problem document says, else the answer's beginning."""
    try:
        said = answer.json()
    except ValueError:
        return answer.text[:200]
    return str(said.get("detail") or said.get("title") or "") if isinstance(said, dict) else answer.text[:200]


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return f"no answer within {DEADLINE_S:.0f} s"
    return without_secrets(str(error)) or type(error).__name__
