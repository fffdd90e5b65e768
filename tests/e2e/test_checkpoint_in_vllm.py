"""A checkpoint is served by vLLM as it stands, without anything of ours."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from services.trainer.algorithms import make_algorithm
from services.trainer.checkpoints import CARD, CheckpointStore, TrainerState
from services.trainer.distributed import ALONE
from services.trainer.learner import Learner
from services.trainer.model_card import ModelCard
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.stopping import StopFlag
from shared.recipe import load_recipe
from tests.policy_processes import write_tiny_model
from tests.processes import free_port
from tests.training import training_group, write_recipe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

READY_DEADLINE_S = 900.0
TOKENS = 6

CPU_FLAGS = ["--dtype", "float32", "--enforce-eager", "--block-size", "32", "--max-model-len", "256"]
CPU_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of LoRA training, whose checkpoint has the most in it besides the model: adapters, moments, the card."""
    folder = tmp_path_factory.mktemp("checkpoint")
    write_tiny_model(folder / "model")
    recipe = load_recipe(write_recipe(folder), ["model.lora_rank = 4", "optimizer.learning_rate = 1e-2"])
    learner = Learner(recipe, None, ALONE, StopFlag())
    groups = [training_group(0, index) for index in range(4)]
    learner.update(assemble(groups, make_algorithm(recipe), Rewards(recipe), 0).samples, 0)
    card = ModelCard("served", recipe, folder / "metrics.jsonl").text
    store = CheckpointStore(folder / "checkpoints", folder / "model", keep=1, card=card)
    return store.save(learner.whole(), learner.save_optimizer, TrainerState(1, []))


@pytest.fixture(scope="module")
def served(checkpoint: Path) -> Iterator[str]:
    """What `vllm serve CHECKPOINT` starts (its script does not find its own version in vLLM's build for CPUs)."""
    port, log = free_port(), checkpoint.parent / "vllm.log"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GAGPO_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port), *CPU_FLAGS],
            env={**variables, **CPU_VARIABLES, "HF_HUB_OFFLINE": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url, give_up = f"http://127.0.0.1:{port}", time.monotonic() + READY_DEADLINE_S
        while not _ready(url):
            assert process.poll() is None and time.monotonic() < give_up, log.read_text()[-4000:]
            time.sleep(1.0)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def test_vllm_serves_a_checkpoint_and_completes_as_transformers_does(checkpoint: Path, served: str) -> None:
    assert (checkpoint / CARD).is_file()
    prompt = " ".join(f"w{place}" for place in range(10, 40))
    body = {"model": str(checkpoint), "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
    answer = httpx.post(f"{served}/v1/completions", json=body, timeout=120).raise_for_status().json()

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    with torch.no_grad():
        for _ in range(TOKENS):
            ids = torch.cat([ids, model(input_ids=ids).logits[:, -1:].argmax(-1)], dim=1)
    assert answer["choices"][0]["text"].split() == tokenizer.decode(ids[0, -TOKENS:]).split()


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5.0).status_code == httpx.codes.OK
    except httpx.TransportError:  # it takes a minute to listen
        return False
