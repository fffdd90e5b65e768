"""The env server as an ASGI app: `create_app` wires the parts together, the lifespan owns them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from redis.asyncio import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from services.env_server.catalogue import ServedCatalogue
from services.env_server.environments.registry import RegistryError, registered
from services.env_server.journal import Journal, JournalUnavailableError, MemoryJournal, RedisJournal
from services.env_server.metrics import EnvServerMetrics
from services.env_server.openapi import install_openapi
from services.env_server.openenv import routes as openenv_routes
from services.env_server.openenv import socket as openenv_socket
from services.env_server.operations import EnvServer
from services.env_server.routes import ACCESS, environments, health, sessions, websocket
from services.env_server.sessions import SessionLimits, SessionTable
from services.env_server.settings import EnvServerSettings
from services.env_server.supervision import Supervisor
from services.env_server.worker_pool import WorkerPool
from services.env_server.worker_slot import DeathReason, WorkerLimits, WorkerStartError
from shared.service import Tokens, install_service
from shared.service.starting import StartFailure

logger = logging.getLogger(__name__)

DESCRIPTION = """Text environments behind a REST API: sessions, groups, batches, idempotent steps.
Errors are RFC 9457 problem documents. JSON everywhere; `application/msgpack` when asked for by `Accept` and
`Content-Type`. `/v1/ws` takes the same messages over a WebSocket. `/openenv/<environment>` is an OpenEnv server."""


def create_app(settings: EnvServerSettings) -> FastAPI:
    """The app. Its workers start with the lifespan; `WorkerStartError` or `RegistryError` there say what is wrong.

    Raises `TokenError` for a token that can't be used.
    """
    metrics = EnvServerMetrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Supervisor().running() as supervisor, _journal(settings) as journal:
            pool = _worker_pool(settings, metrics)
            await pool.start(supervisor)
            catalogue = ServedCatalogue(await pool.slots[0].catalogue())
            limits = SessionLimits(
                settings.max_sessions, settings.max_pending_items, settings.session_ttl_s, settings.retry_after_s
            )
            table = SessionTable(pool, journal, catalogue, limits, metrics)
            supervisor.start("reaper", _reap(table, settings.reap_every_s))
            app.state.env_server = EnvServer(settings, pool, journal, catalogue, table, metrics, supervisor)
            yield

    app = FastAPI(title="gagpo env server", version="1", description=DESCRIPTION, lifespan=lifespan)
    for router in (environments.router, sessions.router, health.router, websocket.router):
        app.include_router(router)
    for router in (openenv_routes.router, openenv_socket.router):
        app.include_router(router)
    install_openapi(app)
    install_service(
        app,
        service="env",
        tokens=Tokens.from_environment(),
        access=ACCESS,
        registry=metrics.registry,
        max_body_bytes=None,  # the routes read their bodies themselves, up to a setting of their own
    )
    app.add_middleware(StartFailure, known=(WorkerStartError, RegistryError))
    return app


def _worker_pool(settings: EnvServerSettings, metrics: EnvServerMetrics) -> WorkerPool:
    limits = WorkerLimits(settings.step_deadline_s, settings.open_deadline_s, settings.worker_start_deadline_s)

    def count_death(reason: DeathReason) -> None:
        metrics.workers_lost.labels(reason).inc()

    served = registered(settings.environments, settings.serve)
    return WorkerPool(served, settings.workers, settings.worker_environment(), limits, count_death)


@asynccontextmanager
async def _journal(settings: EnvServerSettings) -> AsyncIterator[Journal]:
    if settings.redis_url is None:
        logger.warning(
            "REDIS_URL is not set: the sessions' journal is in memory, so sessions outlive a worker but not this server"
        )
        yield MemoryJournal()
        return
    redis = Redis.from_url(
        settings.redis_url,
        socket_timeout=settings.journal_deadline_s,
        socket_connect_timeout=settings.journal_deadline_s,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), 5),
        retry_on_error=[RedisConnectionError, RedisTimeoutError],
        health_check_interval=30,
    )
    try:
        yield RedisJournal(redis, settings.journal_prefix, settings.session_ttl_s, settings.journal_deadline_s)
    finally:
        await redis.aclose()


async def _reap(table: SessionTable, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        try:
            if count := await table.reap():
                logger.info("%d idle sessions expired", count)
        except JournalUnavailableError as error:
            logger.warning("expired sessions stay for now: %s", error)
