"""The policy server's life: it restarts with the latest weights, leaves nothing behind, says why it can't start."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from services.policy_server.parity import MAX_LIMIT, differences, random_prompts, sample
from shared.schemas.policy import SamplingSettings
from shared.weights_digest import digest_of_folder
from tests.policy_processes import (
    VOCABULARY,
    PolicyServer,
    changed,
    start_policy_server,
    tiny_model,
    wait_until_gone,
    write_tiny_model,
)
from tests.processes import REPOSITORY


def test_a_restarted_server_serves_the_latest_weights_and_leaves_nothing_behind_when_killed(tmp_path: Path) -> None:
    """With a model whose output layer is its own, so that both kinds are covered."""
    model = write_tiny_model(tmp_path / "model", seed=3)
    latest = changed(tiny_model(3, tied=False), 4)
    latest.save_pretrained(tmp_path / "weights" / "7")
    pointer = tmp_path / "weights" / "latest.json"
    digest = digest_of_folder(tmp_path / "weights" / "7")
    pointer.write_text(json.dumps({"version": 7, "digest": digest, "path": "7"}))
    with start_policy_server(model, "--weights-pointer", str(pointer)) as server:
        assert server.weights().version == 7
        assert server.weights().digest == digest
        prompts = random_prompts(VOCABULARY, 8, 0)
        sampling = SamplingSettings(max_tokens=12)
        answers = asyncio.run(sample(server.url, prompts, sampling))
        assert max(differences(latest, prompts, answers, sampling)) <= MAX_LIMIT
        assert {version for answer in answers for version in answer.policy_versions} == {7}

        command = [sys.executable, "-m", "services.policy_server.parity", "--server", server.url, "--model"]
        right = subprocess.run([*command, str(tmp_path / "weights" / "7")], cwd=REPOSITORY, capture_output=True)
        assert right.returncode == 0, right.stderr
        assert json.loads(right.stdout)["within"]

        family = server.family()
        assert len(family) > 1
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
        wait_until_gone(family)


def wait_until_listening(server: PolicyServer) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"{server.url}/healthz", timeout=30)
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.02)


def test_a_server_told_to_stop_while_it_starts_ends_with_its_children(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    with start_policy_server(model, wait=False) as server:
        assert server.process.stdout is None
        while b"loading" not in server.log.read_bytes():
            assert server.process.poll() is None
        family = server.family()
        assert server.stop() == 0
        wait_until_gone(family)


@pytest.mark.slow
def test_the_deadline_is_for_the_start_alone(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    deadline_s = 90.0
    started = time.monotonic()
    with start_policy_server(model, "--startup-timeout", str(deadline_s)) as server:
        time.sleep(max(0.0, started + deadline_s + 3 - time.monotonic()))
        assert server.process.poll() is None, server.log.read_text()[-2000:]
        assert len(asyncio.run(sample(server.url, [[5]], SamplingSettings(max_tokens=1)))) == 1
        assert server.stop() == 0


def test_a_server_that_does_not_get_ready_in_time_names_the_setting(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    with start_policy_server(model, "--startup-timeout", "0.5", wait=False) as server:
        assert server.process.wait(120) == 1
        assert "the engine did not start within 0.5 s (startup_timeout)" in server.log.read_text()
    wait_until_gone(server.family())


def test_a_model_that_vllm_refuses_is_explained_in_its_own_words(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model", head_size=16)
    with start_policy_server(model, wait=False) as server:
        wait_until_listening(server)
        assert httpx.get(f"{server.url}/healthz", timeout=30).json() == {"status": "starting"}
        assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 503
        body = {"prompt_token_ids": [5], "sampling": {"max_tokens": 1}}
        early = httpx.post(f"{server.url}/v1/generate", json=body, timeout=30)
        assert (early.status_code, early.json()["type"]) == (503, "/problems/not-ready")
        assert server.process.wait(120) == 1
        end = server.log.read_text().split("The policy server stopped:")[1]
    assert "vLLM:" in end
    assert "16" in end
    assert "services/policy_server" not in end
    wait_until_gone(server.family())
