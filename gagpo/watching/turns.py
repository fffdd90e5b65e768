"""A job's running episodes as lines: one episode after the other, or all of them as they come."""

from collections.abc import Iterator

from rich.console import Console

from shared.live_episodes import LiveEpisode, LiveEpisodes, outcome
from shared.schemas.turns import EpisodeBegan, EpisodeEnded, LiveRecord, TurnPlayed

_ENDED_KEPT = 200
_ONE_LINE = 140
"""Characters of what came of an action, where a turn has one line."""


class OneEpisode:
    """Shows one episode from its beginning to its end, then the newest one that is being played."""

    def __init__(self, console: Console) -> None:
        """Writes to ``console``."""
        self._console = console
        self._live = LiveEpisodes(_ENDED_KEPT)
        self._followed: str | None = None

    def show(self, record: LiveRecord) -> None:
        """What the record says, if it is of the episode that is shown."""
        episode = self._live.take(record)
        if episode is None:
            return
        if self._followed is None and episode.ended is None:
            self._turn_to(episode)
        elif record.episode == self._followed:
            self._print(_full_lines(record))
        if record.episode == self._followed and episode.ended is not None:
            self._next()

    def _turn_to(self, episode: LiveEpisode) -> None:
        self._followed = episode.id
        self._print(_full_lines(episode.began))
        for turn in episode.turns:
            self._print(_full_lines(turn))

    def _next(self) -> None:
        self._followed = None
        self._print([""])
        running = [one for one in self._live.episodes.values() if one.ended is None]
        if running:
            self._turn_to(running[-1])

    def _print(self, lines: Iterator[str] | list[str]) -> None:
        for line in lines:
            self._console.print(line, markup=False)


class AllEpisodes:
    """Shows a line for each turn of every episode, with whose it is in front: training step, group, member."""

    def __init__(self, console: Console) -> None:
        """Writes to ``console``."""
        self._console = console
        self._live = LiveEpisodes(_ENDED_KEPT)

    def show(self, record: LiveRecord) -> None:
        """The record's line."""
        if (episode := self._live.take(record)) is not None:
            self._console.print(f"{_place(episode.began):<10}{_one_line(record)}", markup=False)


def _place(began: EpisodeBegan) -> str:
    return f"{began.step}/{began.group}/{began.member}"


def _full_lines(record: LiveRecord) -> Iterator[str]:
    match record:
        case EpisodeBegan():
            place = f"training step {record.step}, group {record.group}, episode {record.member}"
            yield f"── {place} ── {record.environment} {record.task_id}"
            if record.task != record.observation:
                yield f"task: {record.task}"
            yield record.observation
        case TurnPlayed():
            yield f"> {record.action}{_notes(record)}"
            if record.wrote is not None:
                yield f"  (the policy wrote: {record.wrote})"
            yield record.observation
        case EpisodeEnded():
            yield _ending(record)


def _one_line(record: LiveRecord) -> str:
    match record:
        case EpisodeBegan():
            return f"begins  {record.environment} {record.task_id}: {_short(record.task)}"
        case TurnPlayed():
            return f"{record.turn + 1:>3} > {record.action}{_notes(record)}  →  {_short(record.observation)}"
        case EpisodeEnded():
            return _ending(record)


def _ending(record: EpisodeEnded) -> str:
    return f"{outcome(record)} after {record.turns} turns, score {record.score:g}"


def _notes(turn: TurnPlayed) -> str:
    notes = [
        "" if turn.valid_action else "not understood",
        f"reward {turn.reward:g}" if turn.reward else "",
        f"version {turn.policy_version}",
    ]
    return f"  [{', '.join(note for note in notes if note)}]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _ONE_LINE else f"{line[:_ONE_LINE]} …"
