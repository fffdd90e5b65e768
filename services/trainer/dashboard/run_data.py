"""What a run's page tells, as values: its events in words, its evaluations, its log, its recipe. Nothing here draws."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from services.trainer.dashboard.metrics_file import number
from services.trainer.dashboard.words import duration, percent
from services.trainer.server.evaluation import EVALUATION_EVENT, EVALUATION_FAILED_EVENT, When
from services.trainer.server.log_file import read_from, tail_start
from services.trainer.server.run_folder import RunFolder
from services.trainer.server.service import TrainerService
from shared.buffer import AsyncEventReader, Event
from shared.schemas.evaluation import EpisodeFigures, Interval
from shared.telemetry import readable

MOST_EVENTS = 60
LOG_LINES = 200
_MOST_LOG_BYTES = 256 * 1024

_TOO_MANY = frozenset({"group", "rollout"})
"""Kinds of events that come many times a training step; the step's own event says what came of them."""

Payload = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Happening:
    """An event in words."""

    id: str
    time: datetime
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation's figures as a row of a table."""

    when: str
    environment: str
    episodes: int
    success: float
    interval: Interval
    score: float
    steps: float
    to_optimum: float | None
    """Mean of steps taken over the expert's, of won episodes; None where that is not known."""


async def happenings(service: TrainerService, job: str) -> list[Happening]:
    """The job's latest events but those that come by the hundred, the newest first."""
    reader = AsyncEventReader(service.settings.redis_url, job)
    try:
        found = await reader.newest(MOST_EVENTS, _TOO_MANY)
    finally:
        await reader.close()
    return [
        Happening(one.id, datetime.fromtimestamp(one.time, UTC), one.kind, in_words(one)) for one in reversed(found)
    ]


def in_words(event: Event) -> str:
    """What an event says to a person; its payload as it is where nothing better is known."""
    payload = event.payload
    match event.kind:
        case "state":
            reason = payload.get("reason")
            return f"{payload.get('state')}" + (f": {reason}" if reason else "")
        case "step":
            return _step_in_words(payload)
        case "weights":
            seconds = number(payload, "seconds")
            took = "" if seconds is None else f" in {duration(seconds)}"
            return f"policy servers hold version {payload.get('version')}{took}"
        case "checkpoint":
            return f"version {payload.get('version')} written"
        case "trainer-started":
            return f"at version {payload.get('version')}"
        case "trainer-ended":
            return f"{payload.get('reason')}"
        case "group-dropped":
            return f"group {payload.get('index')} of step {payload.get('step')}: {payload.get('reason')}"
        case str(kind) if kind == EVALUATION_EVENT:
            return f"{payload.get('when')} training: success {percent(number(payload, 'success_rate'))}"
        case str(kind) if kind == EVALUATION_FAILED_EVENT:
            return f"{payload.get('when')} training: {payload.get('reason')}"
        case "note":
            return f"{payload.get('message')}"
        case _:
            return json.dumps(payload)[:300]


def _step_in_words(payload: Payload) -> str:
    length, seconds = number(payload, "mean_episode_length"), number(payload, "seconds_total")
    parts = [
        f"{payload.get('version')}",
        f"success {percent(number(payload, 'success_rate'))}",
        None if length is None else f"length {length:.1f}",
        None if seconds is None else duration(seconds),
    ]
    return " · ".join(part for part in parts if part)


def evaluations(folder: RunFolder) -> list[Evaluated]:
    """A row for each environment of each evaluation that there is. Blocks on the disk."""
    return [row for when in When for row in _evaluation(folder, when)]


def _evaluation(folder: RunFolder, when: When) -> list[Evaluated]:
    try:
        document = json.loads(folder.evaluation(when).read_bytes())
    except FileNotFoundError:
        return []
    known = EpisodeFigures.model_fields.keys()
    return [
        _row(when, name, EpisodeFigures.model_validate({key: figures[key] for key in known & figures.keys()}))
        for name, figures in document["environments"].items()
    ]


def _row(when: When, environment: str, figures: EpisodeFigures) -> Evaluated:
    return Evaluated(
        when=when.value,
        environment=environment,
        episodes=figures.episodes,
        success=figures.success_rate,
        interval=figures.success_interval,
        score=figures.mean_score,
        steps=figures.mean_steps,
        to_optimum=None if figures.optimum is None else figures.optimum.mean_ratio,
    )


async def log_tail(folder: RunFolder) -> str:
    """The last lines of the training processes' log, as a person reads them; empty where there are none."""
    return await asyncio.to_thread(_log_tail, folder)


def _log_tail(folder: RunFolder) -> str:
    text = read_from(folder.log, tail_start(folder.log, LOG_LINES), _MOST_LOG_BYTES).decode(errors="replace")
    return _joined(text.splitlines())


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(readable(line) for line in lines)
