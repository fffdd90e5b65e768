"""What the page of running episodes shows, as values. Nothing here draws."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from services.trainer.dashboard.episode_parts import ShownTurn, reward_text
from services.trainer.dashboard.health_sources import OrchestratorReport
from services.trainer.dashboard.parts import Tone
from shared.live_episodes import LiveEpisode, LiveEpisodes, outcome
from shared.schemas.job import JobState
from shared.schemas.turns import EpisodeBegan, EpisodeEnded, TurnPlayed
from shared.trajectory import EpisodeEnd

KEEP_ENDED = 24
"""How many episodes stay in the list after their end."""

MOST_RUNNING = 60
"""Rows of running episodes; the newest."""

JOB_OVER = "the job is over"


@dataclass(frozen=True, slots=True)
class EpisodeLine:
    """An episode in the list."""

    id: str
    title: str
    place: str
    played: str
    state: str
    tone: Tone

    def row(self) -> dict[str, JsonValue]:
        """As the browser gets it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Standing:
    """Why nothing moves, and what is to be done."""

    tone: Tone
    title: str
    detail: str


def lines(live: LiveEpisodes) -> list[EpisodeLine]:
    """Those being played, the newest first, then those that ended, the latest first."""
    running = [one for one in live.episodes.values() if one.ended is None]
    return [_line(one) for one in [*running[: -MOST_RUNNING - 1 : -1], *reversed(live.ended)]]


def newest(live: LiveEpisodes) -> LiveEpisode | None:
    """The one that began last of those being played; None where none is."""
    return next((one for one in reversed(list(live.episodes.values())) if one.ended is None), None)


def title(began: EpisodeBegan) -> str:
    """Of what kind its task is."""
    kind = began.task_type or began.environment
    return kind if kind == began.environment else f"{began.environment} · {kind}"


def place(began: EpisodeBegan) -> str:
    """Where it belongs in the training."""
    told = f"training step {began.step} · group {began.group} · episode {began.member}"
    return told if not began.attempt else f"{told} · try {began.attempt + 1}"


def ending(ended: EpisodeEnded) -> tuple[str, Tone]:
    """How it ended in a word or two, and whether that is good."""
    if ended.won:
        return "won", "good"
    match ended.end:
        case None:
            return "broken off", "quiet"
        case EpisodeEnd.TERMINATED:
            return "lost", "bad"
        case EpisodeEnd.GAVE_UP:
            return "gave up", "warn"
        case _:
            return "cut off", "warn"


def last_words(ended: EpisodeEnded) -> str:
    """The line below its last turn."""
    score = "" if ended.end is None else f", score {ended.score:g}"
    return f"{outcome(ended)}, after {_turns(ended.turns)}{score}"


def shown(turn: TurnPlayed) -> ShownTurn:
    """A turn for the page."""
    return ShownTurn(
        index=turn.turn,
        action=turn.action,
        observation=turn.observation,
        reward=turn.reward,
        valid=turn.valid_action,
        wrote=turn.wrote or "",
        version=turn.policy_version,
    )


def standing(
    job: str, state: JobState, live: LiveEpisodes, reports: Sequence[OrchestratorReport] | None
) -> Standing | None:
    """Why no episode of the job is being played; None while one is, or before the orchestrators were asked."""
    if state.over:
        detail = f"Nothing is played for {job} any more. Its curves and its credit tell what was."
        return Standing("quiet", f"The job is {state.value}", detail)
    if state is JobState.QUEUED:
        return Standing("quiet", "The job waits for its turn", "Its episodes appear here once it runs.")
    if newest(live) is not None or not reports:
        return None
    return _without_episodes(job, reports)


def _without_episodes(job: str, reports: Sequence[OrchestratorReport]) -> Standing:
    answers = [one.said for one in reports if one.said is not None]
    if not answers:
        first = reports[0]
        detail = f"{first.url}: {first.error}. Without it no episodes are played; the health page says how to start it."
        return Standing("bad", "The orchestrator does not answer", detail)
    own = [one for one in answers if one.job == job]
    if not own:
        worked_for = next((one.job for one in answers if one.job), None)
        does = f"works for {worked_for}" if worked_for else "has no job"
        return Standing("warn", f"The orchestrator {does}", f"It takes up {job} within seconds, if it follows jobs.")
    if reason := next((one.reason for one in own if one.reason), ""):
        return Standing("warn", "The orchestrator waits", reason)
    if any(one.phase == "starting" for one in own):
        return Standing("quiet", "The orchestrator looks for its servers", "Episodes begin once they are ready.")
    detail = "The orchestrator waits for the trainer, which is starting, or learns from the episodes before."
    return Standing("quiet", "No episode is being played just now", detail)


def _line(episode: LiveEpisode) -> EpisodeLine:
    began = episode.began
    word: tuple[str, Tone] = ("playing", "busy") if episode.ended is None else ending(episode.ended)
    state, tone = word
    where = f"step {began.step} · group {began.group} · episode {began.member}"
    played = _turns(len(episode.turns))
    if episode.reward:
        played += f", reward {reward_text(episode.reward)}"
    return EpisodeLine(began.episode, began.task_type or began.environment, where, played, state, tone)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"
