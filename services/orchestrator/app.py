"""The orchestrator as a service: `create_app` wires the parts together, the lifespan runs the rollouts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from services.orchestrator.groups import GroupMaker
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.rollout import Patience, Rollout
from services.orchestrator.routes import router
from services.orchestrator.settings import OrchestratorSettings
from services.orchestrator.setup import Servers, open_players, task_sources
from services.orchestrator.status import Progress
from services.orchestrator.task_order import TaskOrder
from shared.buffer import AsyncEventWriter, AsyncJobChannel, GroupWriter
from shared.problems import install_problem_handlers
from shared.recipe import Recipe, load_recipe

logger = logging.getLogger(__name__)


def create_app(settings: OrchestratorSettings, on_end: Callable[[BaseException | None], None]) -> FastAPI:
    """The app. ``on_end`` is told when the rollouts are over: with None when the job is, else with what broke them.

    Raises `shared.recipe.RecipeError` for a recipe that can't be used.
    """
    recipe = load_recipe(settings.recipe)
    metrics = OrchestratorMetrics([environment.name for environment in recipe.environments])
    progress = Progress(settings.job)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.metrics, app.state.progress = metrics, progress
        task = asyncio.create_task(_work(settings, recipe, metrics, progress), name="rollouts")
        task.add_done_callback(lambda ended: _report_end(ended, progress, on_end))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)  # its error was reported already

    app = FastAPI(title="gagpo orchestrator", version="1", lifespan=lifespan)
    app.include_router(router)
    install_problem_handlers(app)
    return app


async def _work(
    settings: OrchestratorSettings, recipe: Recipe, metrics: OrchestratorMetrics, progress: Progress
) -> None:
    servers = Servers(settings.env_urls, settings.policy_urls, settings.request_timeout_s, settings.request_deadline_s)
    rollout = recipe.rollout
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(GroupWriter(settings.redis_url, settings.job, rollout.buffer_bytes))
        channel = AsyncJobChannel(settings.redis_url, settings.job)
        stack.push_async_callback(channel.close)
        events = AsyncEventWriter(settings.redis_url, settings.job)
        stack.push_async_callback(events.close)
        players = await stack.enter_async_context(open_players(recipe, servers))
        maker = GroupMaker(
            players.environments,
            players.by_environment,
            metrics,
            group_size=rollout.group_size,
            concurrency=rollout.concurrency,
            retries=rollout.episode_retries,
            seed=recipe.seed,
        )
        order = TaskOrder(task_sources(recipe, players.descriptions, held_out=False), recipe.seed)
        work = Rollout(recipe, order, maker, writer, channel, events, metrics, _patience(settings))
        progress.begin(work)
        await work.run()


def _patience(settings: OrchestratorSettings) -> Patience:
    return Patience(trainer_deadline_s=settings.trainer_deadline_s, resume_grace_s=settings.resume_grace_s)


def _report_end(task: "asyncio.Task[None]", progress: Progress, on_end: Callable[[BaseException | None], None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    progress.end(error)
    if error is not None:
        logger.error("the rollouts broke off", exc_info=error)
    on_end(error)
