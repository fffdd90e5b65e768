"""Plays an evaluation's episodes."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence

from services.orchestrator.environments import Session
from services.orchestrator.episode import TurnSeeds
from services.orchestrator.evaluation.plan import PlannedEpisode
from services.orchestrator.evaluation.policies import EvaluatedMove
from services.orchestrator.evaluation.setup import Evaluator
from services.orchestrator.groups import EPISODE_FAILURES
from services.orchestrator.turns import PlayedEpisode, Turn, play_turns
from shared.schemas.evaluation import EpisodeReport, EvaluationSpec, Transcript, TranscriptStep

logger = logging.getLogger(__name__)


async def play_all(
    evaluator: Evaluator,
    spec: EvaluationSpec,
    episodes: Collection[PlannedEpisode],
    on_transcript: Callable[[Transcript], None],
) -> None:
    """Play the episodes; ``on_transcript`` is told of each that could be finished, as soon as it is.

    One that fails is tried again as often as the spec says, and then left out.
    """
    slots = asyncio.Semaphore(spec.concurrency)

    async def one(episode: PlannedEpisode) -> None:
        async with slots:
            transcript = await _play(evaluator, spec, episode)
        if transcript is not None:
            on_transcript(transcript)

    async with asyncio.TaskGroup() as tasks:
        for episode in episodes:
            tasks.create_task(one(episode))


async def _play(evaluator: Evaluator, spec: EvaluationSpec, wanted: PlannedEpisode) -> Transcript | None:
    environment = wanted.environment
    for attempt in range(spec.retries + 1):
        session: Session | None = None
        started = time.monotonic()
        try:
            [session] = await evaluator.environments.open(
                environment, split=wanted.split, index=wanted.task_index, task_id=None, count=1
            )
            actor = evaluator.policies[environment.name].start(session.first, _seeds(spec, wanted, attempt))
            played = await play_turns(evaluator.environments, session, actor)
            return Transcript(
                number=wanted.number,
                attempt=attempt,
                result=_result(wanted, played),
                seconds=round(time.monotonic() - started, 3),
                steps=[_step(turn) for turn in played.turns],
                final_observation=played.last.observation,
            )
        except EPISODE_FAILURES as error:
            logger.warning("try %d failed: %s", attempt + 1, error, extra={"episode": wanted.number})
        finally:
            if session is not None:
                await evaluator.environments.close(session)
    return None


def _seeds(spec: EvaluationSpec, wanted: PlannedEpisode, attempt: int) -> TurnSeeds:
    """A task's first episode is sampled alike however many there are of it."""
    more = (wanted.sample,) if wanted.sample else ()
    return TurnSeeds(spec.seed, wanted.number, attempt, *more)


def _step(turn: Turn[EvaluatedMove]) -> TranscriptStep:
    return TranscriptStep(
        observation=turn.seen.observation,
        action=turn.move.action,
        answer=turn.move.answer,
        reward=turn.after.reward,
        valid_action=turn.valid,
        tokens=turn.move.tokens,
        prompt_tokens=turn.move.prompt_tokens,
    )


def _result(wanted: PlannedEpisode, played: PlayedEpisode[EvaluatedMove]) -> EpisodeReport:
    versions: Sequence[int] = [version for turn in played.turns for version in turn.move.versions] or [0]
    return EpisodeReport(
        environment=wanted.environment.name,
        task_id=played.first.task_id,
        task_type=played.task_type,
        sample=wanted.sample,
        won=played.won,
        score=played.score,
        steps=len(played.turns),
        invalid_actions=sum(not turn.valid for turn in played.turns),
        tokens=sum(turn.move.tokens for turn in played.turns),
        prompt_tokens=sum(turn.move.prompt_tokens for turn in played.turns),
        end=played.end,
        optimal_steps=played.optimal_steps,
        policy_version=min(versions),
        policy_version_last=max(versions),
    )
