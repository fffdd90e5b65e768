"""``gagpo eval`` of a model: behind the policy server's own route, and behind vLLM's OpenAI route."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gagpo.evaluating.errors import EvaluationError
from gagpo.evaluating.local_run import evaluate_policy
from gagpo.evaluating.policy import EndpointOptions, find_policy
from gagpo.evaluating.request import EvaluationRequest
from shared.recipe import load_recipe
from shared.schemas.evaluation import EndpointApi, Transcript
from tests.policy_processes import start_policy_server
from tests.processes import REPOSITORY

MODEL = REPOSITORY / "configs" / "small-policy"
RECIPE = load_recipe(REPOSITORY / "configs" / "alfworld-cpu.toml")


def actions(folder: Path) -> dict[tuple[str, int], list[str]]:
    """Task and sample → what was done."""
    lines = (folder / "transcripts.jsonl").read_bytes().splitlines()
    played = [Transcript.model_validate_json(line) for line in lines]
    return {(one.result.task_id, one.result.sample): [step.action for step in one.steps] for one in played}


@pytest.mark.slow
def test_a_model_plays_alike_behind_both_routes(tmp_path: Path) -> None:
    with start_policy_server(MODEL, "--max-model-len", "400") as server:
        # Few steps, so that no prompt is cut: an endpoint's prompts are cut by an estimate of their tokens.
        asked = EvaluationRequest(
            tasks=16, temperature=0.0, max_steps=4, policy_url=server.url, out=tmp_path / "tokens"
        )
        tokens, _ = evaluate_policy(asked, find_policy(str(MODEL), EndpointOptions()), RECIPE, Console(quiet=True))
        known = EndpointOptions(model="small-policy", api=EndpointApi.COMPLETIONS)
        over_http = replace(asked, policy_url=None, out=tmp_path / "text")
        text, _ = evaluate_policy(over_http, find_policy(f"{server.url}/v1", known), RECIPE, Console(quiet=True))

        other = REPOSITORY / "configs" / "small-policy-webshop"
        elsewhere = replace(asked, out=tmp_path / "other")
        with pytest.raises(EvaluationError, match="has other weights"):
            evaluate_policy(elsewhere, find_policy(str(other), EndpointOptions()), RECIPE, Console(quiet=True))
    assert (tokens.failed, text.failed) == (0, 0)
    assert actions(tmp_path / "tokens") == actions(tmp_path / "text")
    assert tokens.prompt_tokens == text.prompt_tokens > 0
    assert tokens.spec is not None and tokens.spec.policy.label == str(MODEL)
