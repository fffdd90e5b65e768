"""The orchestrator as a service: `create_app` wires the parts together, the lifespan runs the rollouts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.orchestrator.follow import Follower
from services.orchestrator.job import serve_job
from services.orchestrator.reachability import Reachability
from services.orchestrator.routes import ACCESS, router
from services.orchestrator.settings import OrchestratorSettings
from services.orchestrator.setup import Servers, ServerSets, connect_servers
from services.orchestrator.status import Progress
from shared.recipe import load_recipe
from shared.service import Tokens, install_service

logger = logging.getLogger(__name__)

_DRAIN_S = 7.0
"""How long giving back leases and closing sessions may take; what is left then runs out by itself."""


def create_app(settings: OrchestratorSettings, on_end: Callable[[BaseException | None], None]) -> FastAPI:
    """The app. ``on_end`` is told when the work is over: with None when the one job is, else with what broke it.

    Raises `shared.recipe.RecipeError` for a recipe and `shared.service.TokenError` for a token that can't be used.
    """
    recipe = None if settings.recipe is None else load_recipe(settings.recipe)
    progress = Progress()

    async def work(sets: ServerSets) -> None:
        if settings.job is None or recipe is None:
            await Follower(settings, sets, progress).run()
        else:
            await serve_job(settings.job, recipe, settings, sets, progress, settings.resume_grace_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect_servers(_servers(settings)) as sets:
            progress.connect(sets)
            app.state.progress = progress
            app.state.reachability = Reachability(settings.redis_url, sets)
            task = asyncio.create_task(work(sets), name="rollouts")
            task.add_done_callback(lambda ended: _report_end(ended, progress, on_end))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task], timeout=_DRAIN_S)  # its error was reported already
                await app.state.reachability.close()

    app = FastAPI(title="gagpo orchestrator", version="1", lifespan=lifespan)
    app.include_router(router)
    app.state.requests = CollectorRegistry()
    app.state.follows = settings.job is None
    install_service(
        app,
        service="orchestrator",
        tokens=Tokens.from_environment(),
        access=ACCESS,
        registry=app.state.requests,
    )
    return app


def _servers(settings: OrchestratorSettings) -> Servers:
    return Servers(settings.env_urls, settings.policy_urls, settings.request_timeout_s, settings.request_deadline_s)


def _report_end(task: "asyncio.Task[None]", progress: Progress, on_end: Callable[[BaseException | None], None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    progress.end(error)
    if error is not None:
        logger.error("the rollouts broke off", exc_info=error)
    on_end(error)
