"""What the health page finds wrong, in which words, and which command it gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from services.trainer.dashboard.health_checks import Finding, Weight, findings
from services.trainer.dashboard.health_sources import (
    EnvReport,
    OrchestratorReport,
    OrchestratorStatus,
    PolicyReport,
    RedisReport,
    SystemReport,
    TrainerReport,
)
from shared.schemas.environment import EnvironmentDescription
from shared.schemas.job import Job, JobState
from tests.unit.test_dashboard_runs import NOON

GIB = 1024**3


def _well() -> SystemReport:
    job = Job(id="a", name="a", state=JobState.RUNNING, submitted_at=NOON, steps=9, policy_version=4)
    return SystemReport(
        trainer=TrainerReport("a", Path("/runs"), 50 * GIB, 100 * GIB),
        redis=RedisReport(
            "redis://127.0.0.1:6379", version="7.2", eviction="noeviction", appends=True, policy_version=4
        ),
        jobs=[job],
        env=[EnvReport("http://env-server:8001", workers=2, workers_ready=2, environments=[_maze("1")])],
        policy=[PolicyReport("http://127.0.0.1:8002", version=4)],
        orchestrators=[OrchestratorReport("http://127.0.0.1:8003", said=OrchestratorStatus(job="a", phase="rolling"))],
    )


def _maze(digest: str) -> EnvironmentDescription:
    return EnvironmentDescription(
        name="maze", splits={}, max_steps=9, action_format="", options=[], versions={}, data_digest=digest
    )


def _one(change: Callable[[SystemReport], None]) -> Finding:
    report = _well()
    change(report)
    (found,) = findings(report)
    return found


def test_nothing_is_found_where_all_is_well() -> None:
    assert findings(_well()) == []


def _redis_away(report: SystemReport) -> None:
    report.redis = RedisReport("redis://redis:6379", error="no answer within 3 s")


def _redis_forgets(report: SystemReport) -> None:
    report.redis.eviction = "allkeys-lru"


def _redis_full(report: SystemReport) -> None:
    report.redis.memory_bytes, report.redis.most_bytes = 95, 100


def _redis_in_memory_only(report: SystemReport) -> None:
    report.redis.appends = False


def _disk_full(report: SystemReport) -> None:
    report.trainer.disk_free_bytes = GIB


def _env_away(report: SystemReport) -> None:
    report.env[0].error = "All connection attempts failed"


def _env_lost_a_worker(report: SystemReport) -> None:
    report.env[0].workers_ready = 1


def _env_with_other_tasks(report: SystemReport) -> None:
    report.env.append(EnvReport("http://env-server:8005", environments=[_maze("2")]))


def _policy_away(report: SystemReport) -> None:
    report.policy[0] = PolicyReport("http://127.0.0.1:8002", error="All connection attempts failed")


def _policy_loads(report: SystemReport) -> None:
    report.policy[0].not_ready = "the engine is starting"


def _policy_behind(report: SystemReport) -> None:
    report.policy[0].version = 2


def _token_refused(report: SystemReport) -> None:
    report.policy[0] = PolicyReport("http://127.0.0.1:8002", error="GET /v1/weights: HTTP 403", status=403)


def _orchestrator_failed(report: SystemReport) -> None:
    report.orchestrators[0].said = OrchestratorStatus(job="a", phase="failed", reason="no tokenizer")


def _orchestrator_elsewhere(report: SystemReport) -> None:
    report.orchestrators[0].said = OrchestratorStatus(job="b", phase="rolling")


@pytest.mark.parametrize(
    ("change", "weight", "said", "remedy"),
    [
        (_redis_away, Weight.STOPS, "no answer within 3 s", "docker compose up -d redis"),
        (_redis_forgets, Weight.HURTS, "allkeys-lru", "redis-cli CONFIG SET maxmemory-policy noeviction"),
        (_redis_full, Weight.SOON, "95 B of the 100 B", "redis-cli CONFIG SET maxmemory 200"),
        (_redis_in_memory_only, Weight.HURTS, "in memory only", "redis-cli CONFIG SET appendonly yes"),
        (_disk_full, Weight.SOON, "1.0 GB are free", "gagpo job delete"),
        (_env_away, Weight.STOPS, "All connection attempts failed", "docker compose up -d env-server"),
        (_env_lost_a_worker, Weight.HURTS, "1 of 2 workers", "wait"),
        (_env_with_other_tasks, Weight.HURTS, "different tasks of maze", "same data folder"),
        (_policy_away, Weight.STOPS, "policy server at http://127.0.0.1:8002", "--model MODEL --port 8002"),
        (_policy_loads, Weight.STOPS, "the engine is starting", "wait"),
        (_policy_behind, Weight.HURTS, "holds version 2", "pushes the weights again"),
        (_token_refused, Weight.STOPS, "refuses this service's token", "GAGPO_TOKEN_WEIGHTS"),
        (_orchestrator_failed, Weight.STOPS, "gave up: no tokenizer", "start it again"),
        (_orchestrator_elsewhere, Weight.STOPS, "works for b, the trainer for a", "start it again"),
    ],
)
def test_what_is_wrong_is_said_with_what_mends_it(
    change: Callable[[SystemReport], None], weight: Weight, said: str, remedy: str
) -> None:
    found = _one(change)
    assert found.weight is weight
    assert said in found.what
    assert remedy in found.remedy


def test_what_stops_training_comes_first() -> None:
    report = _well()
    _redis_forgets(report)
    _disk_full(report)
    _env_away(report)
    assert [one.weight for one in findings(report)] == [Weight.STOPS, Weight.SOON, Weight.HURTS]
