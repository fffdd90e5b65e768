"""``python -m services.orchestrator.evaluate`` against real servers and a policy that answers at random."""

import subprocess
import sys

from shared.schemas.evaluation import EvaluationReport
from tests.orchestrator_stack import Stack
from tests.processes import REPOSITORY


def test_an_evaluation_reports_the_same_for_the_same_seed(stack: Stack) -> None:
    reports = []
    for name, *more in (("a.json", "--quiet"), ("b.json",)):
        out = stack.folder / "reports" / name
        command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(stack.recipe)]
        command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--out", str(out)]
        done = subprocess.run(
            [*command, "--episodes", "5", *more], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "of 5 episodes won" in done.stdout
        reports.append(EvaluationReport.model_validate_json(out.read_bytes()))
    one, other = reports
    assert one.results == other.results
    assert sorted(result.task_id for result in one.results) == [f"maze-{rooms}" for rooms in range(23, 28)]
    assert (one.environments["maze"].split, one.seed, one.episodes, one.failed) == ("valid", 1234, 5, 0)
    assert one.won == sum(result.won for result in one.results)
    assert one.mean_steps == sum(result.steps for result in one.results) / 5
    assert one.success_interval.low <= one.success_rate <= one.success_interval.high
    assert {request["sampling"]["temperature"] for request in stack.requests()} == {1.0}  # type: ignore[index]


def test_an_evaluation_against_a_missing_split_says_which_there_are(stack: Stack) -> None:
    command = [sys.executable, "-m", "services.orchestrator.evaluate", "--recipe", str(stack.recipe), "--split", "tset"]
    command += ["--env-url", stack.env_urls, "--policy-url", stack.policy_url, "--out", str(stack.folder / "x.json")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "environments.0.eval_split = 'tset'" in done.stderr
    assert "'valid': 5" in done.stderr
