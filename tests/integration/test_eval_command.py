"""``gagpo eval`` against a real env server, and an OpenAI-compatible one that answers at random."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.folder import read_report
from gagpo.evaluating.local_run import evaluate_policy
from gagpo.evaluating.policy import EndpointOptions, find_policy
from gagpo.evaluating.request import EvaluationRequest
from shared.schemas.evaluation import EvaluationReport, Transcript
from tests.processes import REPOSITORY, start_env_server, start_service, without_settings

GUIDED = {
    "GAGPO_ENV_ENVIRONMENTS": '{"guided": "tests.environments.guided_maze:GuidedMazeFamily"}',
    "GAGPO_ENV_SERVE": '["guided"]',
}


@pytest.fixture(scope="module")
def env_url() -> Iterator[str]:
    with start_env_server(**GUIDED) as server:
        yield server.url


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with start_service("tests.openai_server", {}) as server:
        yield server.url


def evaluate(env_url: str, out: Path, policy: str, request: EvaluationRequest, **endpoint: Any) -> EvaluationReport:
    """As the command does, without the second that its imports take."""
    asked = replace(request, environment="guided", split="valid", env_url=env_url, out=out)
    report, _ = evaluate_policy(asked, find_policy(policy, EndpointOptions(**endpoint)), None, Console(quiet=True))
    assert report == read_report(out)
    return report


def transcripts(out: Path) -> list[Transcript]:
    return [Transcript.model_validate_json(line) for line in (out / "transcripts.jsonl").read_bytes().splitlines()]


def test_the_expert_wins_in_the_optimum_and_gives_up_where_it_knows_no_way(env_url: str, tmp_path: Path) -> None:
    report = evaluate(env_url, tmp_path / "expert", "expert", EvaluationRequest(options={"lost_in": 25}))
    assert (report.tasks, report.won, report.failed) == (5, 4, 0)
    ends = {one.task_id: (one.end.value, one.steps) for one in report.results}
    assert ends == {f"maze-{rooms}": ("terminated", rooms) for rooms in (23, 24, 26, 27)} | {"maze-25": ("gave-up", 0)}
    assert report.optimum is not None
    assert (report.optimum.episodes, report.optimum.mean_ratio, report.optimum.optimal_share) == (4, 1.0, 1.0)
    assert "100.0% in the optimum" in (tmp_path / "expert" / "report.md").read_text()
    [steps] = [one.steps for one in transcripts(tmp_path / "expert") if one.result.task_id == "maze-23"]
    assert [step.action for step in steps] == ["north"] * 11 + ["take coin"] + ["north"] * 11
    assert [step.reward for step in steps] == [0.0] * 22 + [1.0]


def test_an_evaluation_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(env_url: str, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    where = ["--env", "guided", "--split", "valid", "--env-url", env_url, "--out", str(out)]
    command = [sys.executable, "-m", "gagpo", "eval", "random", *where, "--samples", "8", "--concurrency", "1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=without_settings(), stdout=log, stderr=log)
    file = out / "transcripts.jsonl"
    deadline = time.monotonic() + 120
    while not file.exists() or file.read_bytes().count(b"\n") < 3:
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.01)
    process.kill()
    process.wait(10)
    _wait_until_gone(out)
    before = file.read_bytes()
    assert before.count(b"\n") < 40
    with file.open("ab") as torn:
        torn.write(b'{"number": 1')
    whole = before[: before.rindex(b"\n") + 1]

    asked = EvaluationRequest(samples=8)
    with pytest.raises(EvaluationError, match="seed was 1234, now 3"):
        evaluate(env_url, out, "random", replace(asked, seed=3))
    gone_on = evaluate(env_url, out, "random", asked)
    assert file.read_bytes().startswith(whole)
    assert len(gone_on.results) == len(transcripts(out)) == 40
    assert gone_on.results == evaluate(env_url, tmp_path / "unharmed", "random", asked).results
    assert set(gone_on.pass_at) == set(range(1, 9))


def test_an_endpoint_is_asked_as_openai_has_it(
    env_url: str, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "secret")
    httpx.post(f"{endpoint}/control", json={"fail": 1, "status": 503})  # the first try is refused
    report = evaluate(
        env_url,
        tmp_path / "endpoint",
        f"{endpoint}/v1",
        EvaluationRequest(temperature=0.5, prompt="direct", tasks=3, max_steps=6),
        model="words",
        key_variable="TEST_KEY",
        body={"max_tokens": None, "max_completion_tokens": 7},
    )
    assert report.spec is not None
    assert report.spec.policy.label == f"words at {endpoint}/v1"
    assert "secret" not in report.model_dump_json()
    asked = httpx.get(f"{endpoint}/requests").json()
    turns = asked[1:]  # the first asks whether the endpoint can be used at all
    assert len(turns) == sum(one.steps for one in report.results)
    assert {one["path"] for one in asked} == {"/v1/chat/completions"}
    assert {one["authorization"] for one in asked} == {"Bearer secret"}
    assert {(one["model"], one["temperature"], one["max_completion_tokens"]) for one in turns} == {("words", 0.5, 7)}
    assert not any("max_tokens" in one for one in asked)
    assert len({one["seed"] for one in turns}) == len(turns)
    assert all("You act in a text environment" in one["messages"][0]["content"] for one in turns)
    played = [step for one in transcripts(tmp_path / "endpoint") for step in one.steps]
    assert report.tokens == sum(len(step.action.split()) for step in played)


def test_an_endpoint_that_refuses_the_key_says_so_at_once(
    env_url: str, endpoint: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    httpx.post(f"{endpoint}/control", json={"fail": -1, "status": 401})
    with pytest.raises(EvaluationError, match="exit code 1"):
        evaluate(env_url, tmp_path / "e", f"{endpoint}/v1", EvaluationRequest(), model="words")
    said = capfd.readouterr().err
    assert "the endpoint cannot be used as it was asked" in said
    assert "refused for the test" in said


def _wait_until_gone(out: Path) -> None:
    """Until the killed command's own child, which still writes, has ended too."""
    deadline = time.monotonic() + 60
    while any(str(out) in _command_line(process) for process in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""
