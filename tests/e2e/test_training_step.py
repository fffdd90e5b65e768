"""One true training step: rollouts from vLLM, groups through Redis, GAGPO, new weights in the running vLLM."""

from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

from shared.buffer import JobChannel
from shared.schemas.job import JobState
from shared.schemas.policy import ScoreRequest, ScoreResult
from shared.weights_digest import digest_of_folder
from tests.training import metrics_of, start_trainer
from tests.training_system import MazeSystem

PROBE = ScoreRequest(prompt_token_ids=[5, 6, 7, 8, 9, 10, 11], token_ids=[4, 5, 2])


def _score(system: MazeSystem) -> ScoreResult:
    answer = httpx.post(f"{system.policy.url}/v1/score", json=PROBE.model_dump(), timeout=30)
    return ScoreResult.model_validate_json(answer.raise_for_status().content)


def _by_transformers(folder: Path) -> list[float]:
    """The probe's log-probabilities by a plain Transformers model."""
    ids = torch.tensor([[*PROBE.prompt_token_ids, *PROBE.token_ids]])
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(folder)(input_ids=ids).logits[0]
    logprobs = logits[len(PROBE.prompt_token_ids) - 1 : -1].log_softmax(-1)
    chosen: list[float] = logprobs.gather(-1, torch.tensor(PROBE.token_ids).unsqueeze(-1)).squeeze(-1).tolist()
    return chosen


@pytest.mark.timeout(400)
@pytest.mark.parametrize("transport", ["file", pytest.param("http", marks=pytest.mark.slow)])
def test_one_training_step_changes_the_weights_in_vllm(maze_system: MazeSystem, tmp_path: Path, transport: str) -> None:
    job, run = f"step-{transport}", tmp_path / "run"
    recipe = maze_system.write_recipe(tmp_path, steps=1, transport=transport)
    url = maze_system.policy.url
    with (
        maze_system.orchestrator(job, recipe) as orchestrator,
        start_trainer(job, recipe, run, maze_system.redis_url, url) as trainer,
    ):
        assert trainer.wait(240) == 0, trainer.log.read_text()
        assert orchestrator.wait(30) == 0
    assert JobChannel(maze_system.redis_url, job).state() is JobState.COMPLETED

    (line,) = metrics_of(run)
    assert (line["episodes"], line["groups"], line["groups_dropped"]) == (16, 4, 0)
    assert line["samples"] > 0
    assert line["grad_norm"] > 0
    assert (line["staleness_mean"], line["staleness_max"]) == (0, 0)
    assert line["logprob_difference_mean"] < 1e-5
    assert line["logprob_difference_max"] < 1e-4

    checkpoint = run / "checkpoints" / "step-000001"
    held = maze_system.policy.weights()
    assert held.version == 1
    assert held.digest == digest_of_folder(checkpoint) != digest_of_folder(maze_system.model)
    now, before = _score(maze_system), _by_transformers(maze_system.model)
    assert now.policy_version == 1
    assert now.logprobs == pytest.approx(_by_transformers(checkpoint), abs=1e-4)
    assert max(abs(a - b) for a, b in zip(now.logprobs, before, strict=True)) > 1e-3


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_vllm_serves_merged_adapters_as_the_trainer_computes_them(maze_system: MazeSystem, tmp_path: Path) -> None:
    job, run = "adapters", tmp_path / "run"
    recipe = maze_system.write_recipe(tmp_path, steps=3)
    text = recipe.read_text().replace("[[environments]]", "lora_rank = 4\n[[environments]]", 1)
    recipe.write_text(text.replace("learning_rate = 3e-4", "learning_rate = 1e-2"))
    with (
        maze_system.orchestrator(job, recipe) as orchestrator,
        start_trainer(job, recipe, run, maze_system.redis_url, maze_system.policy.url) as trainer,
    ):
        assert trainer.wait(240) == 0, trainer.log.read_text()
        assert orchestrator.wait(30) == 0

    lines = metrics_of(run)
    assert [line["step"] for line in lines] == [0, 1, 2]
    # The trainer computes W x + s B A x, the server (W + s B A) x.
    assert all(line["logprob_difference_mean"] < 1e-5 for line in lines)
    assert all(line["logprob_difference_max"] < 1e-4 for line in lines)
    checkpoint, held = run / "checkpoints" / "step-000003", maze_system.policy.weights()
    assert (held.version, held.digest) == (3, digest_of_folder(checkpoint))
    assert digest_of_folder(maze_system.model) in {version.digest for version in held.history if version.version == 0}
    now, before = _score(maze_system), _by_transformers(maze_system.model)
    assert now.logprobs == pytest.approx(_by_transformers(checkpoint), abs=1e-4)
    assert max(abs(a - b) for a, b in zip(now.logprobs, before, strict=True)) > 1e-3


@pytest.mark.timeout(400)
def test_asynchronous_steps_are_at_most_as_stale_as_the_recipe_allows(maze_system: MazeSystem, tmp_path: Path) -> None:
    job, run = "stale", tmp_path / "run"
    recipe = maze_system.write_recipe(tmp_path, steps=5, checkpoint_every=5, staleness=2)
    with (
        maze_system.orchestrator(job, recipe) as orchestrator,
        start_trainer(job, recipe, run, maze_system.redis_url, maze_system.policy.url) as trainer,
    ):
        assert trainer.wait(240) == 0, trainer.log.read_text()
        assert orchestrator.wait(30) == 0
    lines = metrics_of(run)
    assert [line["step"] for line in lines] == list(range(5))
    assert all(0 <= line["staleness_max"] <= 2 for line in lines)
    assert max(line["staleness_max"] for line in lines) > 0, "generation ran ahead"
