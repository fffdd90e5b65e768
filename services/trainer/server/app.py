"""The trainer service as an ASGI app: `create_app` wires the parts together, the lifespan owns them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
from fastapi import FastAPI

from services.trainer.dashboard import Dashboard
from services.trainer.server.evaluation import Evaluations
from services.trainer.server.metrics import TrainerMetrics
from services.trainer.server.model_check import ModelChecker
from services.trainer.server.routes import ACCESS, credit, files, health, jobs, streams
from services.trainer.server.servers import Servers
from services.trainer.server.service import TrainerService
from services.trainer.server.settings import TrainerSettings
from services.trainer.server.supervisor import Supervisor
from shared.buffer import AsyncJobStore
from shared.service import Tokens, install_service

logger = logging.getLogger(__name__)

DESCRIPTION = """Training jobs: submit a recipe, follow it, cancel it, resume it, download its checkpoints.
One job runs at a time, the others wait. Errors are RFC 9457 problem documents."""


def create_app(settings: TrainerSettings, on_failure: Callable[[BaseException], None]) -> FastAPI:
    """The app. ``on_failure`` is told when jobs can't be worked off any more: the service should end then.

    Raises `TokenError` for a token that can't be used.
    """
    metrics = TrainerMetrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settings.runs.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            store = AsyncJobStore(settings.redis_url)
            stack.push_async_callback(store.close)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=settings.servers_deadline_s))
            servers = Servers(settings, client)
            supervisor = Supervisor(settings, store, Evaluations(settings, servers), metrics)
            app.state.trainer = TrainerService(
                settings, store, servers, ModelChecker(settings.model), supervisor, metrics
            )
            await stack.enter_async_context(_supervised(supervisor, on_failure))
            await stack.enter_async_context(dashboard.running())
            yield

    app = FastAPI(title="gagpo trainer", version="1", description=DESCRIPTION, lifespan=lifespan)
    for router in (jobs.router, streams.router, files.router, credit.router, health.router):
        app.include_router(router)
    tokens = Tokens.from_environment()
    install_service(app, service="trainer", tokens=tokens, access=ACCESS, registry=metrics.registry)
    dashboard = Dashboard(app, tokens)
    return app


@asynccontextmanager
async def _supervised(supervisor: Supervisor, on_failure: Callable[[BaseException], None]) -> AsyncIterator[None]:
    """Run the supervisor; at the end it interrupts the job in hand."""

    def report(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("jobs are not worked off any more", exc_info=error)
            on_failure(error)

    task = asyncio.create_task(supervisor.run(), name="supervisor")
    task.add_done_callback(report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # its error was reported already
