"""Whether everything that training needs is well, and what to do where it is not."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from nicegui import ui

from services.trainer.dashboard.health_checks import Finding, Weight, findings
from services.trainer.dashboard.health_sources import (
    EnvReport,
    OrchestratorReport,
    PolicyReport,
    RedisReport,
    ServerReport,
    SystemReport,
    TrainerReport,
    look,
)
from services.trainer.dashboard.page import Page, View
from services.trainer.dashboard.parts import Part, Tone, chip, facts, heading, keep_up, notice, written
from services.trainer.dashboard.words import duration, size
from shared.schemas.job import Job, JobState

REFRESH_S = 4.0

_TONES: dict[Weight, Tone] = {Weight.STOPS: "bad", Weight.SOON: "warn", Weight.HURTS: "warn"}

Facts = list[tuple[str, str]]


async def build(view: View) -> None:
    """What is wrong, then every service."""
    heading("Health", "Every service that training needs, asked anew every few seconds.")
    problems = Part(ui.element("div").classes("findings"))
    services = Part(ui.element("div").classes("service-grid"))
    asking = asyncio.Lock()

    async def refresh() -> None:
        if asking.locked():
            return  # the last look has not ended yet
        async with asking:
            report = await look(view.service)
        found = findings(report)
        problems.show(found, lambda: _draw_findings(found))
        services.show(report, lambda: _draw_services(report))

    await refresh()
    keep_up(REFRESH_S, refresh)


def _draw_findings(found: Sequence[Finding]) -> None:
    if not found:
        notice("good", "All is well", "Every service answers and is ready.")
    for one in found:
        with ui.element("div").classes(f"notice {_TONES[one.weight]} finding"):
            with ui.element("div").classes("finding-head"):
                written("span", one.service, "notice-title")
                written("span", one.weight.value, "small")
            written("div", one.what, "notice-detail")
            written("div", one.remedy, "mono remedy")


def _draw_services(report: SystemReport) -> None:
    _service("Trainer", "this service", ("ready", "good"), _trainer_facts(report.trainer, report.jobs))
    _service("Redis", report.redis.url, _redis_state(report.redis), _redis_facts(report.redis))
    for env in report.env:
        _service("Env server", env.url, _state(env), _env_facts(env))
    for policy in report.policy:
        _service("Policy server", policy.url, _state(policy), _policy_facts(policy))
    for orchestrator in report.orchestrators:
        _service("Orchestrator", orchestrator.url, _state(orchestrator), _orchestrator_facts(orchestrator))


def _service(name: str, url: str, state: tuple[str, Tone], told: Facts) -> None:
    with ui.element("section").classes("card service").props(f'data-service="{name}"'):
        with ui.element("div").classes("service-head"):
            written("h2", name)
            chip(*state)
        written("div", url, "muted mono")
        if told:
            facts(told)


def _state(server: ServerReport) -> tuple[str, Tone]:
    if server.error is not None:
        return "does not answer", "bad"
    return ("ready", "good") if server.not_ready is None else ("not ready", "warn")


def _redis_state(redis: RedisReport) -> tuple[str, Tone]:
    return ("ready", "good") if redis.error is None else ("does not answer", "bad")


def _trainer_facts(trainer: TrainerReport, jobs: Sequence[Job]) -> Facts:
    waiting = sum(job.state is JobState.QUEUED for job in jobs)
    return [
        ("Job at work", trainer.job or "none"),
        ("Jobs waiting", str(waiting)),
        ("Disk free", f"{size(trainer.disk_free_bytes)} of {size(trainer.disk_bytes)}"),
        ("gagpo", _installed("gagpo")),
        ("torch", _installed("torch")),
    ]


def _redis_facts(redis: RedisReport) -> Facts:
    if redis.error is not None:
        return []
    bound = f" of {size(redis.most_bytes)}" if redis.most_bytes else ""
    return [
        ("Groups waiting", str(redis.buffer_groups)),
        ("Their bytes", size(redis.buffer_bytes)),
        ("Memory", size(redis.memory_bytes) + bound),
        ("Clients", str(redis.clients)),
        ("Version", redis.version),
    ]


def _env_facts(env: EnvReport) -> Facts:
    if env.error is not None:
        return []
    told = [
        ("Workers ready", f"{env.workers_ready} of {env.workers}"),
        ("Sessions", _known(env.sessions)),
        ("Environments", ", ".join(one.name for one in env.environments)),
    ]
    versions = {package: number for one in env.environments for package, number in one.versions.items()}
    return told + sorted(versions.items())


def _policy_facts(policy: PolicyReport) -> Facts:
    if policy.error is not None:
        return []
    return [
        ("Model", policy.model.rstrip("/").rsplit("/", 1)[-1]),
        ("Weights", f"version {policy.version}"),
        ("Digest", policy.digest[:12]),
        ("Requests", _known(policy.running)),
        ("Waiting", _known(policy.waiting)),
    ]


def _orchestrator_facts(orchestrator: OrchestratorReport) -> Facts:
    said = orchestrator.said
    if said is None:
        return []
    return [
        ("Job", said.job or "none"),
        ("Phase", said.phase),
        ("Episodes in flight", str(said.episodes_in_flight)),
        ("Groups made", str(said.groups_added)),
        ("Groups dropped", str(said.groups_dropped)),
        ("Up for", duration(said.uptime_s)),
    ]


def _known(figure: int | None) -> str:
    return "–" if figure is None else str(figure)


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # an image may hold the package's files alone
        return "–"


PAGE = Page("/health", "Health", build, menu="Health")
