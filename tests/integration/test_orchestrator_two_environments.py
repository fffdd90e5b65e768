"""One job on two environments: their groups, and what is told about each."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue

from shared.buffer import EventReader, GroupReader
from shared.prompting import PolicyTokenizer, PromptBuilder
from shared.recipe import load_recipe
from shared.schemas.evaluation import EvaluationReport
from shared.trajectory import Group
from tests.orchestrator_stack import Stack, read_groups, start_orchestrator
from tests.processes import REPOSITORY

BEACH = """
[[environments]]
name = "beach"
split = "train"
eval_split = "valid"
weight = 2.0
eval_episodes = 3
max_steps = 8
state_key = "history"
options = { pays = "success" }
[environments.prompt]
history_length = 0
max_tokens = 60
[environments.sampling]
max_tokens = 3
"""


@pytest.fixture
def both(stack: Stack) -> Stack:
    """A job on the maze and, with twice its weight, the beach."""
    stack.write_recipe(more=BEACH)
    return stack


def test_groups_hold_one_task_each_and_environments_their_shares(both: Stack) -> None:
    both.publish(0)
    with start_orchestrator(both) as (_, url):
        for step in range(3):
            groups = read_groups(both, step)
            assert Counter(group.environment for group in groups) == {"beach": 2, "maze": 1}
            for group in groups:
                _check_group(both, group)
            both.publish(step + 1)
        _check_reports(both, url)


def _check_group(stack: Stack, group: Group) -> None:
    """It is of one task, and each prompt is as the recipe wants it for that environment."""
    recipe = load_recipe(stack.recipe)
    (wanted,) = [one for one in recipe.environments if one.name == group.environment]
    assert group.task_type == group.environment
    assert group.task_id.startswith(group.environment)
    assert len(group.episodes) == 4
    builder = PromptBuilder(wanted.prompt, PolicyTokenizer(recipe.model.path))
    for episode in group.episodes:
        assert len({one.steps[0].observation for one in group.episodes}) == 1
        assert len(episode.steps) <= wanted.max_steps
        prompts = builder.start(episode.steps[0].observation, {})
        for one in episode.steps:
            if group.environment == "beach":
                shown = prompts.render(one.observation, ["north", "south", "take coin"])
                assert one.prompt_token_ids.tolist() == shown
                assert one.observation.endswith(f" Place {one.true_state}.")  # whatever its state key is
            prompts.record(one.observation, one.action)


def _check_reports(stack: Stack, url: str) -> None:
    """Events, status and metrics tell the environments apart."""
    status = httpx.get(url + "/v1/status").json()
    assert {name: told["groups_added"] for name, told in status["environments"].items()} == {"beach": 6, "maze": 3}
    assert sum(told["episodes"] for told in status["environments"].values()) == status["episodes"] == 36
    assert 0 < status["environments"]["beach"]["mean_score"] < 1
    assert 'gagpo_orchestrator_episodes_total{environment="beach"} 24.0' in httpx.get(url + "/metrics").text
    last: dict[str, JsonValue] = {}
    deadline = time.monotonic() + 60
    while last.get("step") != 2 and time.monotonic() < deadline:
        events = EventReader(stack.redis_url, stack.job).read()
        last = next((event.payload for event in reversed(events) if event.kind == "rollout"), {})
        time.sleep(0.05)
    told = last["environments"]
    assert isinstance(told, dict)
    assert {name: one["groups"] for name, one in told.items()} == {"beach": 2, "maze": 1}  # type: ignore[index, call-overload]


def test_the_sampling_of_each_environment_is_its_own(both: Stack) -> None:
    both.publish(0)
    with start_orchestrator(both):
        read_groups(both, 0)
    assert {request["sampling"]["max_tokens"] for request in both.requests()} == {3, 4}  # type: ignore[index]
    assert all(len(request["prompt_token_ids"]) <= 200 for request in both.requests())  # type: ignore[arg-type]


def _evaluate(stack: Stack, out: Path, *more: str) -> EvaluationReport:
    command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(stack.recipe), "--quiet"]
    command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--out", str(out), *more]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in ("maze", "beach"):
        assert f"{name}: " in done.stdout
    return EvaluationReport.model_validate_json(out.read_bytes())


def test_an_evaluation_tells_the_environments_apart_and_grades_what_is_graded(both: Stack, tmp_path: Path) -> None:
    text = both.recipe.read_text() + "[evaluation]\nepisodes = 12\n"
    both.recipe.write_text(text)
    report = _evaluate(both, tmp_path / "report.json")
    beach, maze = report.environments["beach"], report.environments["maze"]
    assert (beach.episodes, maze.episodes, report.episodes) == (3, 4, 7), "its own number, and a third of twelve"
    assert (beach.split, maze.split) == ("valid", "valid")
    assert report.won == beach.won + maze.won
    assert {result.task_id for result in report.results if result.environment == "beach"} == {
        "beach-2",
        "beach-4",
        "beach-6",
    }
    assert beach.graded, "the score is told although the training reward is success alone"
    assert beach.mean_score > beach.success_rate
    assert beach.score_interval is not None
    assert beach.score_interval.low <= beach.mean_score <= beach.score_interval.high
    assert maze.mean_score == maze.success_rate


def test_the_held_out_tasks_of_an_environment_do_not_depend_on_its_company(both: Stack, tmp_path: Path) -> None:
    together = _evaluate(both, tmp_path / "both.json", "--episodes", "9", "--split", "maze=train")
    assert {name: one.episodes for name, one in together.environments.items()} == {"maze": 3, "beach": 6}
    both.write_recipe()
    command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(both.recipe), "--quiet"]
    command += ["--env-url", both.env_urls, "--policy-url", both.policy_url, "--episodes", "3", "--split", "train"]
    out = tmp_path / "alone.json"
    subprocess.run([*command, "--out", str(out)], cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
    alone = EvaluationReport.model_validate_json(out.read_bytes())
    assert alone.results == [result for result in together.results if result.environment == "maze"]


def test_a_crash_changes_no_task_and_lost_groups_are_counted_where_they_belong(both: Stack) -> None:
    both.publish(0)
    with start_orchestrator(both) as (process, _):
        before = [(group.environment, group.task_id) for group in read_groups(both, 0)]
        process.kill()
        process.wait(10)
    both.control(fail=-1, status=422)
    with start_orchestrator(both) as (_, url), GroupReader(both.redis_url, both.job) as reader:
        assert [(group.environment, group.task_id) for group in reader.read_step(0, 3, 40)] == before
        both.publish(1)
        assert reader.read_step(1, 3, 40) == []
        status = httpx.get(url + "/v1/status").json()
        assert {name: told["groups_dropped"] for name, told in status["environments"].items()} == {
            "beach": 2,
            "maze": 1,
        }
        both.control(fail=0)
        both.publish(2)
        assert Counter(group.environment for group in reader.read_step(2, 3, 40)) == {"beach": 2, "maze": 1}
    dropped = [event for event in EventReader(both.redis_url, both.job).read() if event.kind == "group-dropped"]
    assert Counter(event.payload["environment"] for event in dropped) == {"beach": 2, "maze": 1}
