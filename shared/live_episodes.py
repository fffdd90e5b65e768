"""What the records of running episodes add up to (`shared.schemas.turns`). Knows nothing of where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.schemas.turns import EpisodeBegan, EpisodeEnded, LiveRecord, TurnPlayed
from shared.trajectory import EpisodeEnd

_REMEMBERED = 8_192
_ENDED = -1


class Unrepeated:
    """Lets each record through once and in order: episodes are told again whenever somebody else begins to watch."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._next: dict[str, int] = {}

    def takes(self, record: LiveRecord) -> bool:
        """Whether a record is the next of its episode."""
        following = self._next.get(record.episode)
        match record:
            case EpisodeBegan():
                new = following is None
                if new:
                    self._forget_oldest()
                    self._next[record.episode] = 0
            case TurnPlayed():
                new = following == record.turn
                if new:
                    self._next[record.episode] = record.turn + 1
            case EpisodeEnded():
                new = following is not None and following != _ENDED
                if new:
                    self._next[record.episode] = _ENDED
        return new

    def _forget_oldest(self) -> None:
        if len(self._next) >= _REMEMBERED:
            del self._next[next(iter(self._next))]


@dataclass(slots=True)
class LiveEpisode:
    """One episode, as far as it was told."""

    began: EpisodeBegan
    turns: list[TurnPlayed] = field(default_factory=list)
    ended: EpisodeEnded | None = None

    @property
    def id(self) -> str:
        """Tells it from every other."""
        return self.began.episode

    @property
    def reward(self) -> float:
        """Sum of the environment's rewards so far."""
        return sum(turn.reward for turn in self.turns)


class LiveEpisodes:
    """The episodes that are being played, and those that ended lately."""

    def __init__(self, keep_ended: int) -> None:
        """Of the ended ones, so many are kept."""
        self._keep_ended = keep_ended
        self._unrepeated = Unrepeated()
        self._episodes: dict[str, LiveEpisode] = {}
        self._ended: list[str] = []

    @property
    def episodes(self) -> Mapping[str, LiveEpisode]:
        """By id, in the order in which they began."""
        return self._episodes

    @property
    def ended(self) -> list[LiveEpisode]:
        """Those that ended lately, in the order in which they did."""
        return [self._episodes[one] for one in self._ended]

    def take(self, record: LiveRecord) -> LiveEpisode | None:
        """Bring them up to date; the episode that has changed, None where the record says nothing new."""
        if not self._unrepeated.takes(record):
            return None
        if isinstance(record, EpisodeBegan):
            self._replace(record)
            self._episodes[record.episode] = LiveEpisode(record)
        episode = self._episodes.get(record.episode)
        if episode is None:  # ended without us, and dropped since
            return None
        if isinstance(record, TurnPlayed):
            episode.turns.append(record)
        elif isinstance(record, EpisodeEnded):
            self._end(episode, record)
        return episode

    def break_off(self, reason: str) -> None:
        """Nothing more comes of those that are being played."""
        for episode in [one for one in self._episodes.values() if one.ended is None]:
            self._end(episode, EpisodeEnded(episode=episode.id, turns=len(episode.turns), end=None, reason=reason))

    def _replace(self, newer: EpisodeBegan) -> None:
        """Who played this place before is gone: its orchestrator died, and another one took over."""
        place = (newer.step, newer.group, newer.member)
        for episode in self._episodes.values():
            began = episode.began
            if episode.ended is None and (began.step, began.group, began.member) == place:
                self._end(
                    episode,
                    EpisodeEnded(
                        episode=episode.id, turns=len(episode.turns), end=None, reason="it is being played again"
                    ),
                )
                return

    def _end(self, episode: LiveEpisode, record: EpisodeEnded) -> None:
        episode.ended = record
        self._ended.append(episode.id)
        while len(self._ended) > self._keep_ended:
            self._episodes.pop(self._ended.pop(0), None)


_ENDS = {
    EpisodeEnd.TERMINATED: "lost",
    EpisodeEnd.STEP_LIMIT: "cut off: the step limit",
    EpisodeEnd.PROMPT_LIMIT: "cut off: the prompt grew too long",
    EpisodeEnd.GAVE_UP: "gave up",
}


def outcome(ended: EpisodeEnded) -> str:
    """How an episode ended, in words."""
    if ended.won:
        return "won"
    return f"broken off: {ended.reason}" if ended.end is None else _ENDS[ended.end]
