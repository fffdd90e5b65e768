"""What is told of an episode: its texts cut, its policy's words beside the action, its records each once."""

from collections.abc import Callable

from services.orchestrator.episode import SampledMove
from services.orchestrator.telling import EpisodePlace, ToldEpisode
from services.orchestrator.turns import Turn
from shared.schemas.environment import Observation, StepResult
from shared.schemas.policy import FinishReason, GenerateResult
from shared.schemas.turns import MOST_OBSERVATION_CHARS, EpisodeBegan, EpisodeEnded, LiveRecord, TurnPlayed


def test_the_task_is_the_goal_and_what_the_policy_wrote_is_told_where_it_is_more_than_the_action() -> None:
    episode = _episode(lambda move: f"<think>hm</think> {move.action}" if move.action == "north" else move.action)
    episode.add(_turn("north"))
    episode.add(_turn("south", after="x" * (MOST_OBSERVATION_CHARS + 7)))
    began, first, second = _all(episode)
    assert isinstance(began, EpisodeBegan)
    assert (began.task, began.observation, began.task_type) == ("find the coin", "a room", "walk")
    assert isinstance(first, TurnPlayed)
    assert isinstance(second, TurnPlayed)
    assert (first.action, first.wrote, first.policy_version) == ("north", "<think>hm</think> north", 5)
    assert (second.wrote, second.valid_action) == (None, False)
    assert second.observation.endswith("(7 more characters)")


def test_what_was_told_is_not_told_again_unless_told_to() -> None:
    episode = _episode(lambda move: move.action)
    assert [record.kind for record in _all(episode)] == ["began"]
    episode.add(_turn("north"))
    assert [record.kind for record in _all(episode)] == ["turn"]
    episode.break_off("its group was given up")
    told = _all(episode)
    assert told == [EpisodeEnded(episode=episode.id, turns=1, end=None, reason="its group was given up")]
    assert not episode.untold
    episode.told = 0
    assert [record.kind for record in _all(episode)] == ["began", "turn", "ended"]


def _all(episode: ToldEpisode) -> list[LiveRecord]:
    records: list[LiveRecord] = []
    while episode.untold:
        records.append(episode.next_record())
    return records


def _episode(written: Callable[[SampledMove], str]) -> ToldEpisode:
    info = {"goal": "find the coin", "task_type": "walk"}
    first = Observation.model_validate({**_SEEN, "observation": "a room", "step_index": 0, "info": info})
    return ToldEpisode(EpisodePlace(3, 1, 2, 0), "maze", first, written)


def _turn(action: str, after: str = "another room") -> Turn[SampledMove]:
    sampled = GenerateResult(
        token_ids=[4, 2], logprobs=[0.0, 0.0], policy_versions=[5, 6], finish_reason=FinishReason.STOP
    )
    seen = Observation.model_validate({**_SEEN, "observation": "a room", "step_index": 0, "info": {}})
    result = {"observation": after, "step_index": 1, "reward": 0.5, "terminated": False, "truncated": False}
    valid = action == "north"
    answer = StepResult.model_validate({**_SEEN, **result, "info": {"valid_action": valid}})
    return Turn(seen, SampledMove(action, [1], sampled), answer)


_SEEN: dict[str, object] = {
    "session_id": "s",
    "task_id": "maze-3",
    "admissible_actions": [],
    "state_key": "1",
}
