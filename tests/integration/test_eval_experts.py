"""``gagpo eval expert`` on env servers that it starts itself: ALFWorld's real games, WebShop's generated goals."""

from pathlib import Path

import pytest
from rich.console import Console

from gagpo.evaluating.local_run import evaluate_policy
from gagpo.evaluating.policy import EndpointOptions, find_policy
from gagpo.evaluating.request import EvaluationRequest
from shared.recipe import load_recipe
from shared.schemas.evaluation import EvaluationReport
from tests.data_paths import real_data
from tests.processes import REPOSITORY


def evaluate(policy: str, recipe: str, request: EvaluationRequest) -> EvaluationReport:
    found = find_policy(policy, EndpointOptions())
    report, _ = evaluate_policy(request, found, load_recipe(REPOSITORY / "configs" / recipe), Console(quiet=True))
    return report


@pytest.mark.slow
def test_alfworlds_expert_wins_every_real_game_in_the_optimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(real_data("alfworld")))
    asked = EvaluationRequest(out=tmp_path / "expert", tasks=134, max_steps=50)
    report = evaluate("expert", "alfworld-cpu.toml", asked)
    assert (report.tasks, report.won, report.failed) == (134, 134, 0)
    assert report.optimum is not None
    assert (report.optimum.episodes, report.optimum.mean_ratio) == (134, 1.0)
    assert len(report.environments["alfworld"].task_types) == 6


@pytest.mark.slow
def test_webshops_expert_wins_what_can_be_won_and_a_random_policy_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    expert = evaluate("expert", "webshop-cpu.toml", EvaluationRequest(out=tmp_path / "expert"))
    known = [one for one in expert.results if one.optimal_steps is not None]
    assert [one for one in expert.results if one.won] == known
    assert all(one.steps == one.optimal_steps for one in known)
    assert expert.success_rate > 0.9
    random = evaluate("random", "webshop-cpu.toml", EvaluationRequest(out=tmp_path / "random"))
    assert [one.task_id for one in random.results] == [one.task_id for one in expert.results]
    assert random.success_rate < 0.1
    assert random.invalid_action_rate < 0.01
