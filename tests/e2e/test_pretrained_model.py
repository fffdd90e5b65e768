"""A real pretrained model takes one training step through the whole system, every service a process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from gagpo.stack import LocalSystem, SystemSettings
from gagpo.training.tasks import data_folders
from services.policy_server.parity import reference_logprobs
from services.trainer.pretrained import smollm2
from services.trainer.pretrained.folder import convert
from services.trainer.pretrained.gguf_model import ConversionError
from shared.prompting import PolicyTokenizer
from shared.recipe import load_recipe, save_recipe
from shared.schemas.policy import SamplingSettings, ScoreRequest, ScoreResult, WeightState
from shared.weights_digest import digest_of_folder

RECIPE = Path(__file__).parents[2] / "configs" / "alfworld-smollm2-cpu.toml"
TRAINING_DEADLINE_S = 600.0
PROBE = ("Put a clean mug on the desk. You are in the middle of a room.", " I go to the sink and clean the mug first.")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@dataclass(frozen=True)
class Trained:
    """What is there after one training step, the policy server still running."""

    model: Path
    run_folder: Path
    before: WeightState
    after: WeightState
    scored_before: ScoreResult
    scored_after: ScoreResult
    probe: ScoreRequest
    policy_url: str

    @property
    def checkpoint(self) -> Path:
        return self.run_folder / "checkpoints" / "step-000001"


@pytest.fixture(scope="module")
def smollm2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="gguf is not installed: there is nothing to convert with")
    try:
        file = smollm2.gguf_file()
    except ConversionError as error:
        pytest.skip(str(error))
    return convert(file, tmp_path_factory.mktemp("models") / "SmolLM2-135M-Instruct").folder


@pytest.fixture(scope="module")
def trained(smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    run_folder = tmp_path_factory.mktemp("run")
    # The learning rate is a hundred times the recipe's, so that stale weights in the server can't go unnoticed.
    overrides = [f'model.path="{smollm2_folder}"', "training.steps=1", "optimizer.learning_rate=1e-4"]
    recipe = load_recipe(RECIPE, overrides)
    save_recipe(recipe, run_folder / "recipe.toml")
    tokenizer = PolicyTokenizer(smollm2_folder)
    probe = ScoreRequest(prompt_token_ids=tokenizer.encode(PROBE[0]), token_ids=tokenizer.encode(PROBE[1]))
    settings = SystemSettings(
        job="smollm2-e2e",
        recipe_file=run_folder / "recipe.toml",
        recipe=recipe,
        run_folder=run_folder,
        environment=data_folders(recipe),
    )
    with LocalSystem(settings) as system, httpx.Client(base_url=system.policy_url, timeout=60) as policy:
        system.start_servers()
        before, scored_before = _weights(policy), _score(policy, probe)
        system.start_training()
        _wait_for_trainer(system)
        after, scored_after = _weights(policy), _score(policy, probe)
        yield Trained(smollm2_folder, run_folder, before, after, scored_before, scored_after, probe, system.policy_url)


@pytest.fixture(scope="module")
def loaded_checkpoint(trained: Trained) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(trained.checkpoint, dtype=torch.float32).eval()


def test_the_server_has_the_weights_that_the_trainer_made(trained: Trained) -> None:
    assert (trained.before.version, trained.before.digest) == (0, digest_of_folder(trained.model))
    assert (trained.after.version, trained.after.digest) == (1, digest_of_folder(trained.checkpoint))
    assert trained.after.digest != trained.before.digest


def test_the_new_weights_say_something_else_and_what_hugging_face_says(
    trained: Trained, loaded_checkpoint: PreTrainedModel
) -> None:
    probe, new = trained.probe, trained.scored_after
    expected = reference_logprobs(
        loaded_checkpoint, probe.prompt_token_ids, probe.token_ids, SamplingSettings(max_tokens=1)
    )
    assert (trained.scored_before.policy_version, new.policy_version) == (0, 1)
    assert new.logprobs == pytest.approx(expected, abs=1e-4)
    moved = [abs(old - now) for old, now in zip(trained.scored_before.logprobs, new.logprobs, strict=True)]
    assert max(moved) > 1e-2, "one step at this learning rate moves log-probs by much more than they may be wrong"


def test_sampled_tokens_have_hugging_faces_log_probs_after_the_push(trained: Trained) -> None:
    """SmolLM2 ties its output layer to the embedding: the layer whose packed copy a reload can leave behind."""
    assert json.loads((trained.model / "config.json").read_text())["tie_word_embeddings"] is True
    options = ["--server", trained.policy_url, "--model", str(trained.checkpoint), "--requests", "8"]
    parity = subprocess.run(
        [sys.executable, "-m", "services.policy_server.parity", *options],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert parity.stdout.strip(), parity.stderr
    report = json.loads(parity.stdout.strip().splitlines()[-1])
    assert (report["policy_version"], report["max"]) == (1, pytest.approx(0.0, abs=1e-4))


def test_the_checkpoint_is_an_ordinary_model_that_still_writes(
    trained: Trained, loaded_checkpoint: PreTrainedModel
) -> None:
    tokenizer = PolicyTokenizer(trained.checkpoint)
    prompt = tokenizer.encode_chat("What is the capital of France?")
    written = loaded_checkpoint.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=8, do_sample=False
    )
    assert "Paris" in tokenizer.decode(written[0, len(prompt) :].tolist())


def test_the_step_used_every_group_and_the_servers_log_probs_are_the_trainers(trained: Trained) -> None:
    recipe = load_recipe(trained.run_folder / "recipe.toml")
    [row] = [json.loads(line) for line in (trained.run_folder / "metrics.jsonl").read_text().splitlines()]
    assert (row["version"], row["groups"], row["groups_dropped"]) == (1, recipe.rollout.groups_per_step, 0)
    assert row["episodes"] == recipe.rollout.groups_per_step * recipe.rollout.group_size
    assert row["samples"] > 0
    assert row["grad_norm"] > 0
    assert row["logprob_difference_max"] < 1e-3


def _weights(policy: httpx.Client) -> WeightState:
    return WeightState.model_validate_json(policy.get("/v1/weights").raise_for_status().content)


def _score(policy: httpx.Client, probe: ScoreRequest) -> ScoreResult:
    answer = policy.post("/v1/score", json=probe.model_dump(mode="json")).raise_for_status()
    return ScoreResult.model_validate_json(answer.content)


def _wait_for_trainer(system: LocalSystem) -> None:
    deadline = time.monotonic() + TRAINING_DEADLINE_S
    while system.trainer_exit_code() is None:
        system.check()
        assert time.monotonic() < deadline, f"no training step within {TRAINING_DEADLINE_S:.0f} s"
        time.sleep(0.5)
    system.check()
