"""What the page of running episodes says, of episodes that were told and of orchestrators that were asked."""

import pytest

from services.trainer.dashboard.health_sources import OrchestratorReport, OrchestratorStatus
from services.trainer.dashboard.live_data import MOST_RUNNING, ending, last_words, lines, newest, place, shown, standing
from shared.live_episodes import LiveEpisodes
from shared.schemas.job import JobState
from shared.schemas.turns import EpisodeBegan, EpisodeEnded, TurnPlayed, shortened
from shared.trajectory import EpisodeEnd

URL = "http://127.0.0.1:8003"


def _began(name: str, member: int = 0, attempt: int = 0) -> EpisodeBegan:
    return EpisodeBegan(
        episode=name,
        step=3,
        group=1,
        member=member,
        attempt=attempt,
        environment="alfworld",
        task_id="look/trial",
        task_type="look_at_obj_in_light",
        task="look at the mug",
        observation="You are in a room.",
        began_at=0.0,
    )


def _turn(name: str, turn: int, reward: float = 0.0) -> TurnPlayed:
    return TurnPlayed(
        episode=name,
        turn=turn,
        action="look",
        wrote="<action>look</action>",
        observation="A room.",
        reward=reward,
        valid_action=True,
        policy_version=7,
    )


def _ended(name: str, end: EpisodeEnd | None, won: bool = False, reason: str = "") -> EpisodeEnded:
    return EpisodeEnded(episode=name, turns=2, end=end, won=won, score=float(won), reason=reason)


def _live(*records: EpisodeBegan | TurnPlayed | EpisodeEnded) -> LiveEpisodes:
    live = LiveEpisodes(keep_ended=10)
    for record in records:
        live.take(record)
    return live


def test_those_being_played_come_first_and_the_newest_before_them() -> None:
    live = _live(
        *(_began(name, member) for member, name in enumerate("abcd")),
        _turn("a", 0, reward=1.0),
        _ended("a", EpisodeEnd.TERMINATED, won=True),
        _ended("c", EpisodeEnd.STEP_LIMIT),
    )
    told = [(one.id, one.state, one.tone) for one in lines(live)]
    assert told == [("d", "playing", "busy"), ("b", "playing", "busy"), ("c", "cut off", "warn"), ("a", "won", "good")]
    first = lines(live)[-1]
    assert (first.title, first.place) == ("look_at_obj_in_light", "step 3 · group 1 · episode 0")
    assert first.played == "1 turn, reward +1"
    last = newest(live)
    assert last is not None
    assert last.id == "d"


def test_a_list_of_very_many_shows_the_newest() -> None:
    live = _live(*(_began(str(member), member) for member in range(MOST_RUNNING + 9)))
    assert [one.id for one in lines(live)] == [str(member) for member in range(MOST_RUNNING + 8, 8, -1)]


@pytest.mark.parametrize(
    ("ended", "word", "words"),
    [
        (_ended("a", EpisodeEnd.TERMINATED, won=True), "won", "won, after 2 turns, score 1"),
        (_ended("a", EpisodeEnd.TERMINATED), "lost", "lost, after 2 turns, score 0"),
        (_ended("a", EpisodeEnd.PROMPT_LIMIT), "cut off", "cut off: the prompt grew too long, after 2 turns, score 0"),
        (_ended("a", None, reason="no server"), "broken off", "broken off: no server, after 2 turns"),
    ],
)
def test_an_end_is_told_in_words(ended: EpisodeEnded, word: str, words: str) -> None:
    assert ending(ended)[0] == word
    assert last_words(ended) == words


def test_a_turn_and_a_place_are_told_as_they_were() -> None:
    turn = shown(_turn("a", 4, reward=-0.5))
    assert (turn.index, turn.action, turn.wrote) == (4, "look", "<action>look</action>")
    assert (turn.reward, turn.version) == (-0.5, 7)
    assert place(_began("a", member=2)) == "training step 3 · group 1 · episode 2"
    assert place(_began("a", attempt=1)).endswith("episode 0 · try 2")


def test_a_long_text_is_cut_and_says_so() -> None:
    assert shortened("a room", 10) == "a room"
    assert shortened("x" * 1300, 100) == "x" * 100 + " … (1,200 more characters)"


def test_a_page_without_episodes_says_why() -> None:
    def title(state: JobState, *reports: OrchestratorReport, live: LiveEpisodes | None = None) -> str | None:
        found = standing("tuesday", state, live or _live(), list(reports))
        return None if found is None else found.title

    away = OrchestratorReport(URL, error="no answer within 5 s")
    waiting, idle, other = _report("tuesday", "waiting"), _report(None, "idle"), _report("monday", "rolling")
    assert title(JobState.RUNNING, away) == "The orchestrator does not answer"
    assert title(JobState.RUNNING, away, waiting) == "No episode is being played just now"
    assert title(JobState.RUNNING, idle) == "The orchestrator has no job"
    assert title(JobState.RUNNING, other) == "The orchestrator works for monday"
    assert title(JobState.RUNNING, _report("tuesday", "starting")) == "The orchestrator looks for its servers"
    assert title(JobState.RUNNING, _report("tuesday", "starting", "Redis is away")) == "The orchestrator waits"
    assert title(JobState.RUNNING) is None, "they were not asked yet"
    assert title(JobState.RUNNING, away, live=_live(_began("a"))) is None, "an episode is being played"
    assert title(JobState.QUEUED, away) == "The job waits for its turn"
    assert title(JobState.COMPLETED, waiting) == "The job is completed"


def _report(job: str | None, phase: str, reason: str = "") -> OrchestratorReport:
    return OrchestratorReport(URL, said=OrchestratorStatus(job=job, phase=phase, reason=reason))
