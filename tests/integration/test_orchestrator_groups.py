"""Which groups the orchestrator makes, and that each is what the servers saw and said."""

import signal
import time

import httpx
import pytest

from shared.buffer import BufferTimeoutError, EventReader, GroupReader
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe
from shared.schemas.job import JobState
from shared.trajectory import EpisodeEnd, Group
from tests.orchestrator_stack import Stack, open_sessions, read_groups, start_orchestrator


def test_a_synchronous_job_from_the_first_group_to_the_end(stack: Stack) -> None:
    before = open_sessions(stack)
    stack.publish(0)
    with start_orchestrator(stack) as (process, url), GroupReader(stack.redis_url, stack.job) as reader:
        for step in range(3):
            groups = reader.read_step(step, 3, 40)
            _check_groups(stack, groups, step)
            if step < 2:
                with pytest.raises(BufferTimeoutError):
                    reader.read_step(step + 1, 1, 0.3)
            else:
                _check_reports(stack, url)
            reader.release(step + 1)
            stack.publish(step + 1)
        stack.channel.set_state(JobState.COMPLETED)
        assert process.wait(15) == 0
    assert open_sessions(stack) == before


def _check_groups(stack: Stack, groups: list[Group], step: int) -> None:
    """Every group is whole, and each of its steps is what the servers saw and said."""
    recipe = load_recipe(stack.recipe)
    builder = PromptBuilder(recipe.prompt, PolicyTokenizer(recipe.model.path))
    assert [group.index for group in groups] == [0, 1, 2]
    assert len({group.task_id for group in groups}) == 3
    for group in groups:
        assert (group.step, group.environment, group.task_type, len(group.episodes)) == (step, "maze", "maze", 4)
        for episode in group.episodes:
            assert episode.steps[0].observation == group.episodes[0].steps[0].observation
            assert episode.won == (episode.end is EpisodeEnd.TERMINATED)
            assert episode.score == float(episode.won)
            assert episode.end is EpisodeEnd.TERMINATED or len(episode.steps) == 12
            prompts = builder.start(episode.steps[0].observation, {})
            for one in episode.steps:
                admissible = ["north", "south", *(["take coin"] if "coin lies" in one.observation else [])]
                assert one.prompt_token_ids.tolist() == prompts.render(one.observation, admissible)
                assert one.action == builder.action(one.token_ids.tolist())
                assert len(one.logprobs) == len(one.token_ids)
                assert set(one.policy_versions.tolist()) == {step}
                assert one.valid_action == (one.action in {"north", "south"} or one.action in admissible)
                assert one.state_key.count("|") == 1
                assert one.true_state == one.state_key  # the recipe groups by the true state
                prompts.record(one.observation, one.action)


def _check_reports(stack: Stack, url: str) -> None:
    """The events, the status and the metrics agree with what was made."""
    deadline = time.monotonic() + 60
    kinds: list[str] = []
    while kinds.count("rollout") < 3 and time.monotonic() < deadline:
        events = EventReader(stack.redis_url, stack.job).read()
        kinds = [event.kind for event in events]
        time.sleep(0.05)
    assert kinds.count("group") == 9
    last = [event.payload for event in events if event.kind == "rollout"][-1]
    seeds = [request["sampling"]["seed"] for request in stack.requests()]  # type: ignore[index]
    assert len(set(seeds)) == len(seeds)
    assert (last["step"], last["groups"], last["episodes"], last["dropped"], last["max_staleness"]) == (2, 3, 12, 0, 0)
    status = httpx.get(url + "/v1/status").json()
    assert (status["groups_added"], status["episodes"], status["phase"]) == (9, 36, "waiting")
    assert status["steps"] == len(stack.requests())
    assert 'gagpo_orchestrator_groups_added_total{environment="maze"} 9.0' in httpx.get(url + "/metrics").text
    assert httpx.get(url + "/readyz").status_code == 200


def test_the_same_seed_gives_the_same_tasks_also_after_a_crash(stack: Stack) -> None:
    stack.publish(0)
    with start_orchestrator(stack) as (process, _):
        before = [group.task_id for group in read_groups(stack, 0)]
        stack.publish(1)
        read_groups(stack, 1, 1)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    with start_orchestrator(stack):
        again = read_groups(stack, 0), read_groups(stack, 1)
    assert [group.task_id for group in again[0]] == before
    tasks = [group.task_id for step in again for group in step]
    assert len(set(tasks)) == 6
    places = [
        (event.payload["step"], event.payload["index"])
        for event in EventReader(stack.redis_url, stack.job).read()
        if event.kind == "group"
    ]
    assert len(places) == len(set(places))


def test_with_staleness_the_next_step_is_made_with_the_version_before(stack: Stack) -> None:
    stack.write_recipe(staleness=1)
    stack.publish(0)
    with start_orchestrator(stack), GroupReader(stack.redis_url, stack.job) as reader:
        ahead = reader.read_step(0, 3, 40) + reader.read_step(1, 3, 40)
        assert {int(step.policy_versions.max()) for group in ahead for e in group.episodes for step in e.steps} == {0}
        with pytest.raises(BufferTimeoutError):
            reader.read_step(2, 1, 0.5)
