"""Evaluation: one episode on each of a seeded choice of held-out tasks, and what came of them."""

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import count

from services.orchestrator.environments import Session
from services.orchestrator.episode import TurnSeeds
from services.orchestrator.evaluation_plan import EvaluationPart, EvaluationPlan
from services.orchestrator.evaluation_report import EvaluatedEpisode, evaluation_report
from services.orchestrator.groups import EPISODE_FAILURES
from services.orchestrator.setup import Players
from services.orchestrator.task_order import TaskChoice, TaskOrder
from shared.schemas.evaluation import EvaluationReport

logger = logging.getLogger(__name__)


async def evaluate(
    players: Players, plan: EvaluationPlan, on_episode: Callable[[EvaluatedEpisode], None]
) -> EvaluationReport:
    """Play every episode of the plan; ``on_episode`` is told of each.

    Tasks are drawn without replacement as long as there are enough; which ones depends on the seed and on their own
    environment alone. Raises `EvaluationError` when no episode at all of an environment could be finished.
    """
    slots = asyncio.Semaphore(plan.concurrency)
    started = time.monotonic()

    async def one(part: EvaluationPart, task: TaskChoice, number: int) -> EvaluatedEpisode | None:
        async with slots:
            outcome = await _play(players, plan, part, task, number)
        if outcome is not None:
            on_episode(outcome)
        return outcome

    number = count()
    async with asyncio.TaskGroup() as tasks:
        playing = [
            tasks.create_task(one(part, order.choice(place), next(number)))
            for part in plan.parts
            for order in [TaskOrder([part.source], plan.seed)]
            for place in range(part.episodes)
        ]
    outcomes = [outcome for task in playing if (outcome := task.result()) is not None]
    return evaluation_report(plan, outcomes, time.monotonic() - started)


async def _play(
    players: Players, plan: EvaluationPlan, part: EvaluationPart, task: TaskChoice, number: int
) -> EvaluatedEpisode | None:
    """One episode, tried again as often as the plan says; None when it failed every time."""
    environment, source = part.environment, part.source
    for attempt in range(plan.retries + 1):
        session: Session | None = None
        try:
            [session] = await players.environments.open(
                environment, split=source.split, index=task.index, task_id=None, count=1
            )
            seeds = TurnSeeds(plan.seed, number, attempt)
            episode = await players.by_environment[environment.name].play(session, 0, seeds)
            task_type = session.first.info.get("task_type")
            kind = task_type if isinstance(task_type, str) else ""
            return EvaluatedEpisode(environment.name, session.first.task_id, kind, episode)
        except EPISODE_FAILURES as error:
            logger.warning("try %d failed: %s", attempt + 1, error, extra={"episode": number})
        finally:
            if session is not None:
                await players.environments.close(session)
    return None
