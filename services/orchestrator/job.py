"""One job, from connecting to the servers to the state that it ended in."""

from contextlib import AsyncExitStack

from services.orchestrator.delivery import Delivery
from services.orchestrator.groups import GroupMaker
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.rollout import Patience, Rollout
from services.orchestrator.settings import OrchestratorSettings
from services.orchestrator.setup import ServerSets, open_players, task_sources
from services.orchestrator.status import Progress
from services.orchestrator.task_order import TaskOrder
from services.orchestrator.telling import EpisodeTeller
from shared.buffer import AsyncEventWriter, AsyncJobChannel, GroupLeases, GroupWriter, TurnWriter
from shared.recipe import Recipe
from shared.schemas.job import JobState
from shared.telemetry import log_context


async def serve_job(
    job: str,
    recipe: Recipe,
    settings: OrchestratorSettings,
    sets: ServerSets,
    progress: Progress,
    resume_grace_s: float,
) -> JobState:
    """Make a job's groups until the trainer says that it is over; the state that it ended in.

    ``resume_grace_s`` is how long a job that is over already may take to be resumed. Raises `SetupError` where the
    servers do not fit the recipe, and what the prompt's template or the tokenizer raise.
    """
    metrics = OrchestratorMetrics([environment.name for environment in recipe.environments])
    progress.start(job, metrics)
    rollout, redis_url = recipe.rollout, settings.redis_url
    async with AsyncExitStack() as stack:
        stack.enter_context(log_context(job=job))
        writer = await stack.enter_async_context(GroupWriter(redis_url, job, rollout.buffer_bytes))
        leases = await stack.enter_async_context(GroupLeases(redis_url, job, settings.lease_s))
        channel = AsyncJobChannel(redis_url, job)
        stack.push_async_callback(channel.close)
        events = AsyncEventWriter(redis_url, job)
        stack.push_async_callback(events.close)
        teller = EpisodeTeller(TurnWriter(redis_url, job))
        await stack.enter_async_context(teller.running())
        players = await stack.enter_async_context(open_players(recipe, sets, of_job=channel.holds_weights))
        maker = GroupMaker(
            players.environments,
            players.by_environment,
            metrics,
            teller,
            group_size=rollout.group_size,
            concurrency=rollout.concurrency,
            retries=rollout.episode_retries,
            seed=recipe.seed,
        )
        delivery = Delivery(
            maker,
            writer,
            events,
            metrics,
            groups_per_step=rollout.groups_per_step,
            deadline_s=settings.trainer_deadline_s,
        )
        order = TaskOrder(task_sources(recipe.environments, players.descriptions, held_out=False), recipe.seed)
        patience = Patience(settings.trainer_deadline_s, resume_grace_s, settings.lease_s)
        work = Rollout(recipe, order, delivery, channel, leases, metrics, patience)
        progress.begin(work, players)
        return await work.run()
