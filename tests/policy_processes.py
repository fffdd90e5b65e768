"""A real policy server for the tests, and the tiny models that it serves."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from shared.schemas.policy import WeightPush, WeightSource, WeightState
from shared.weights_digest import digest_of_folder
from tests.processes import REPOSITORY, free_port
from tests.tokenizers import write_tokenizer

START_DEADLINE_S = 240.0
"""A start takes 20 s on a quiet machine with two cores, and several times that on a busy one."""

STOP_DEADLINE_S = 10.0
VOCABULARY = 300


def write_tiny_model(folder: Path, *, seed: int = 0, tied: bool = False, head_size: int = 32) -> Path:
    """A random Llama of 0.1 M parameters with a word-level tokenizer; vLLM on a CPU needs heads of 32 or more."""
    model = tiny_model(seed, tied, head_size)
    model.save_pretrained(folder)
    return write_tokenizer(folder, " ".join(f"w{place}" for place in range(4, VOCABULARY)))


def tiny_config(vocabulary: int, tied: bool, head_size: int = 32) -> LlamaConfig:
    """The smallest Llama that vLLM serves on a CPU: two layers of two heads."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=2 * head_size,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


def tiny_model(seed: int, tied: bool, head_size: int = 32) -> LlamaForCausalLM:
    """The model that `write_tiny_model` writes. Weights are large enough that distributions are far from uniform."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(tiny_config(VOCABULARY, tied, head_size)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.15)
    return model


def changed(model: LlamaForCausalLM, seed: int, scale: float = 0.05) -> LlamaForCausalLM:
    """A copy whose every weight has moved, as after an optimizer step far larger than a real one."""
    torch.manual_seed(seed)
    copy = LlamaForCausalLM(model.config).eval()
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.add_(torch.randn_like(parameter) * scale)
    return copy


@dataclass
class PolicyServer:
    """A running policy server."""

    url: str
    model: Path
    process: subprocess.Popen[bytes]
    log: Path

    def push(self, folder: Path, version: int, *, expected_version: int | None = None) -> WeightState:
        """Push a folder's weights. Raises `AssertionError` where the server refuses them."""
        answer = self.try_push(WeightPushTo(folder).push(version, expected_version))
        assert answer.status_code == 200, answer.text
        return WeightState.model_validate_json(answer.content)

    def try_push(self, push: WeightPush) -> httpx.Response:
        """The answer to a push."""
        return httpx.post(f"{self.url}/v1/weights", json=push.model_dump(), timeout=60, trust_env=False)

    def weights(self) -> WeightState:
        """Which weights are served."""
        return WeightState.model_validate_json(httpx.get(f"{self.url}/v1/weights", timeout=30).content)

    def family(self) -> list[int]:
        """The server's process and all its descendants."""
        return [self.process.pid, *_descendants(self.process.pid)]

    def stop(self) -> int:
        """End it as an operator would; the exit status. Raises `subprocess.TimeoutExpired` where it takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(STOP_DEADLINE_S)
        return self.process.returncode


@dataclass(frozen=True)
class WeightPushTo:
    """Makes the push of a folder's weights."""

    folder: Path

    def push(self, version: int, expected_version: int | None = None, source: WeightSource | None = None) -> WeightPush:
        """The push, by file unless another source is given."""
        by_file = {"transport": "file", "path": str(self.folder)}
        return WeightPush.model_validate(
            {
                "version": version,
                "digest": digest_of_folder(self.folder),
                "source": source or by_file,
                "expected_version": expected_version,
            }
        )


@contextmanager
def start_policy_server(model: Path, *flags: str, wait: bool = True) -> Iterator[PolicyServer]:
    """``python -m services.policy_server`` on a free port; its whole process group is gone at the end.

    Raises `AssertionError` with the end of its log where it does not become ready.
    """
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="policy-server-"))
    log = folder / "log"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GAGPO_")}
    command = [sys.executable, "-m", "services.policy_server", "--model", str(model), "--port", str(port), *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    server = PolicyServer(f"http://127.0.0.1:{port}", model, process, log)
    try:
        if wait:
            wait_until_ready(server)
        yield server
    finally:
        try:
            server.stop()
        finally:
            _kill_group(process)
            shutil.rmtree(folder)


def wait_until_ready(server: PolicyServer) -> None:
    """Wait for ``/readyz``. Raises `AssertionError` with the end of the log where it ends or takes too long."""
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            if httpx.get(f"{server.url}/readyz", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{server.url} did not become ready:\n{server.log.read_text()[-4000:]}")
        time.sleep(0.1)


def wait_until_gone(pids: list[int], deadline_s: float = STOP_DEADLINE_S) -> None:
    """Wait until none of these processes runs. Raises `AssertionError` that names those left."""
    deadline = time.monotonic() + deadline_s
    while left := [pid for pid in pids if _alive(pid)]:
        assert time.monotonic() < deadline, f"still running after {deadline_s} s: {left}"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        others = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            if task.name != str(pid)
            for child in (task / "children").read_text().split()
        ]
    except FileNotFoundError:
        return []
    found = children + others
    return found + [below for child in found for below in _descendants(child)]


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(STOP_DEADLINE_S)
