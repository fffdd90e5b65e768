"""What the trainer's tests need around it: made-up groups, a recipe, a weight endpoint, the trainer as a process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import numpy as np

from shared.buffer import GroupWriter
from shared.recipe import load_recipe, save_recipe
from shared.schemas.policy import WeightFile, WeightPush, WeightState
from shared.trajectory import Episode, EpisodeEnd, Group, Step
from shared.weights_digest import digest_of_folder
from tests.policy_processes import VOCABULARY
from tests.processes import REPOSITORY

RECIPE = """
name = "trainer-test"
seed = 3
[model]
path = "model"
[[environments]]
name = "maze"
[rollout]
groups_per_step = 4
group_size = 4
max_staleness = {staleness}
[optimizer]
learning_rate = 1e-3
warmup_steps = 2
[training]
steps = {steps}
minibatches = 2
epochs = {epochs}
micro_batch_tokens = {micro_batch_tokens}
checkpoint_every = {checkpoint_every}
keep_checkpoints = {keep_checkpoints}
old_logprobs = "{old_logprobs}"
[weights]
transport = "{transport}"
push_timeout_s = 5
"""


SHARDED = ("model.gradient_checkpointing = true", "optimizer.epsilon = 1e-5")
"""Changes for a training that is to be the same on another number of processes: activations are recomputed, and AdamW
makes no full steps of gradients that are nothing but rounding, as it would with a tiny epsilon."""


def write_recipe(
    folder: Path,
    *changes: str,
    steps: int = 4,
    epochs: int = 1,
    micro_batch_tokens: int = 512,
    checkpoint_every: int = 2,
    keep_checkpoints: int = 2,
    old_logprobs: str = "trainer",
    transport: str = "file",
    staleness: int = 0,
) -> Path:
    """A recipe for the model in ``<folder>/model``, with 4 groups of 4 episodes a training step.

    ``changes`` are what ``gagpo train --set`` takes.
    """
    file = folder / "recipe.toml"
    file.write_text(
        RECIPE.format(
            steps=steps,
            epochs=epochs,
            micro_batch_tokens=micro_batch_tokens,
            checkpoint_every=checkpoint_every,
            keep_checkpoints=keep_checkpoints,
            old_logprobs=old_logprobs,
            transport=transport,
            staleness=staleness,
        )
    )
    if changes:
        save_recipe(load_recipe(file, changes), file)
    return file


def training_group(step: int, index: int, *, won: bool | None = None) -> Group:
    """Four episodes of 3 to 6 steps in a handful of rooms, decided by the arguments; ``won`` overrides the outcomes."""
    random = np.random.default_rng([step, index])
    episodes = []
    for _ in range(4):
        outcome = bool(random.integers(2)) if won is None else won
        episodes.append(_episode(random, step, int(random.integers(3, 7)), outcome))
    return Group(step, index, "maze", f"maze-{index}", "walk" if index % 2 else "carry", tuple(episodes), 1.5)


def _episode(random: np.random.Generator, version: int, length: int, won: bool) -> Episode:
    steps = []
    for turn in range(length):
        count = int(random.integers(1, 6))
        steps.append(
            Step(
                observation=f"room {turn}",
                action="walk on",
                state_key="start" if turn == 0 else f"room-{random.integers(4)}",
                prompt_token_ids=random.integers(3, VOCABULARY, int(random.integers(20, 50))).astype(np.int32),
                token_ids=random.integers(2, VOCABULARY, count).astype(np.int32),
                logprobs=-random.random(count).astype(np.float32),
                policy_versions=np.full(count, version, np.int32),
                reward=float(won and turn == length - 1),
                valid_action=True,
            )
        )
    end = EpisodeEnd.TERMINATED if won else EpisodeEnd.STEP_LIMIT
    return Episode(tuple(steps), end, "end", won, float(won))


def add_groups(redis_url: str, job: str, groups: list[Group]) -> None:
    """Put groups into the buffer, as the orchestrator does."""

    async def add() -> None:
        async with GroupWriter(redis_url, job, 0) as writer:
            for group in groups:
                await writer.add(group)

    asyncio.run(add())


@dataclass
class WeightEndpoint:
    """A stand-in for the policy server's ``/v1/weights``, where vLLM's start would take longer than the test.

    It fetches and checks what it is pushed as the real one does, and keeps the last weights' bytes.
    """

    url: str = ""
    history: list[tuple[int, str]] = field(default_factory=list)
    """(version, digest) of every push that was taken."""
    refuse: int = 0
    """So many of the next pushes answer 503."""
    model: Path | None = None
    """Folder of the model that it claims to serve under the folder's name."""
    max_model_len: int = 1024

    def models(self) -> dict[str, object]:
        """As vLLM answers ``GET /v1/models``."""
        assert self.model is not None
        card = {"id": self.model.name, "object": "model", "root": str(self.model), "max_model_len": self.max_model_len}
        return {"object": "list", "data": [card]}

    def weights(self) -> dict[str, object]:
        """As ``GET /v1/weights`` answers."""
        start = "initial" if self.model is None else digest_of_folder(self.model)
        entries: list[dict[str, object]] = [
            {"version": version, "digest": digest, "transport": transport, "loaded_at": 0.0, "seconds": 0.0}
            for version, digest, transport in [(0, start, "initial"), *((*pushed, "file") for pushed in self.history)]
        ]
        last = entries[-1]
        return {
            "version": last["version"],
            "digest": last["digest"],
            "model": "tiny" if self.model is None else self.model.name,
            "initial_digest": start,
            "history": entries[-32:],
        }

    def take(self, push: WeightPush) -> WeightState:
        """Load the pushed weights and check their digest."""
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(push.source, WeightFile):
                found = digest_of_folder(Path(push.source.path))
            else:
                answer = httpx.get(push.source.url, timeout=10).raise_for_status()  # type: ignore[union-attr]
                Path(folder, "model.safetensors").write_bytes(answer.content)
                found = digest_of_folder(Path(folder))
        assert found == push.digest
        self.history.append((push.version, push.digest))
        return WeightState(version=push.version, digest=found, model="tiny", initial_digest="initial", history=[])


@contextmanager
def start_weight_endpoint() -> Iterator[WeightEndpoint]:
    """A weight endpoint on a free port."""
    endpoint = WeightEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if endpoint.refuse > 0:
                endpoint.refuse -= 1
                self.send_error(503)
                return
            self._answer(endpoint.take(WeightPush.model_validate_json(body)).model_dump_json().encode())

        def do_GET(self) -> None:
            said = endpoint.models() if self.path == "/v1/models" else endpoint.weights()
            self._answer(json.dumps(said).encode())

        def _answer(self, answer: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def wait_until_pushed(endpoint: WeightEndpoint, version: int, seen: int = 0, deadline_s: float = 240.0) -> None:
    """Wait for a push of ``version`` or later, beyond the first ``seen`` pushes."""
    give_up = time.monotonic() + deadline_s
    while not any(pushed >= version for pushed, _ in endpoint.history[seen:]):
        assert time.monotonic() < give_up, f"version {version} was not pushed: {endpoint.history[seen:]}"
        time.sleep(0.01)


@dataclass
class Trainer:
    """The trainer as a process."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, deadline_s: float = 120.0) -> int:
        """Its exit code."""
        return self.process.wait(deadline_s)

    def kill(self) -> None:
        """As ``kill -9``."""
        self.process.kill()
        self.process.wait(10)

    def terminate(self, deadline_s: float = 10.0) -> int:
        """As an operator ends it; its exit code. Raises `subprocess.TimeoutExpired`."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_s)


@contextmanager
def start_trainer(
    job: str, recipe: Path, run_dir: Path, redis_url: str, policy_url: str, processes: int = 1
) -> Iterator[Trainer]:
    """``python -m services.trainer``, by torchrun for more than one process; killed at the end if it still runs."""
    log = run_dir.parent / f"{run_dir.name}.log"
    command = [sys.executable, "-m"]
    if processes > 1:
        command += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    command += ["services.trainer", "--job", job, "--recipe", str(recipe)]
    command += ["--run-dir", str(run_dir), "--redis-url", redis_url, "--policy-url", policy_url, "--threads", "1"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GAGPO_")}
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, env=variables, stdout=output, stderr=subprocess.STDOUT)
    trainer = Trainer(process, log)
    try:
        yield trainer
    finally:
        if process.poll() is None:
            trainer.kill()


def metrics_of(run_dir: Path) -> list[dict[str, float]]:
    """The lines of ``metrics.jsonl``."""
    file = run_dir / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
