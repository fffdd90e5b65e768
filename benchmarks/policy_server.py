"""How many requests a second the policy server answers: ``/v1/generate`` against ``/v1/completions``, in one run.

    python benchmarks/policy_server.py [--url URL | --model DIR] [--concurrency 64] [--requests 1000]

Without ``--url`` it starts a server of its own, on ``--model`` or on a random small Llama that it makes. The load is
that of a training loop on short actions: prompts of 100 to 200 tokens of which the first 40 are alike, 6 tokens each.
"""

import argparse
import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

VOCABULARY = 500
SHARED_PREFIX = 40
ROUTES = ["/v1/completions", "/v1/generate"]


@dataclass(frozen=True)
class Load:
    """One run's load."""

    requests: int
    concurrency: int
    new_tokens: int
    prompt_tokens: tuple[int, int]


def make_model(folder: Path) -> None:
    """Write a random Llama of 0.9 M parameters with a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = {"<s>": 0, "</s>": 1, "<pad>": 2, "<unk>": 3} | {f"w{index}": index for index in range(4, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)


def prompts(load: Load, seed: int) -> list[list[int]]:
    """Seeded prompts; a new seed gives prompts that no cache has seen beyond the shared beginning."""
    draw = random.Random(seed)
    start = [random.Random(0).randrange(4, VOCABULARY) for _ in range(SHARED_PREFIX)]
    return [
        start + [draw.randrange(4, VOCABULARY) for _ in range(draw.randint(*load.prompt_tokens) - SHARED_PREFIX)]
        for _ in range(load.requests)
    ]


def generate_body(prompt: list[int], load: Load) -> bytes:
    """A request of ``/v1/generate``."""
    return json.dumps({"prompt_token_ids": prompt, "sampling": {"max_tokens": load.new_tokens}}).encode()


def completions_body(prompt: list[int], load: Load, model: str) -> bytes:
    """The same request of ``/v1/completions``."""
    fields = {"model": model, "prompt": prompt, "max_tokens": load.new_tokens, "logprobs": 0, "return_token_ids": True}
    return json.dumps(fields).encode()


class Connection:
    """One keep-alive HTTP/1.1 connection: httpx would take more of the cores than the server that is measured."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        self._port = int(port)

    async def __aenter__(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of the answer. Raises `RuntimeError` on any status but 200."""
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length: ")[1].split("\r\n")[0])
        content = await self._reader.readexactly(length)
        if " 200 " not in answer.split("\r\n")[0]:
            raise RuntimeError(content.decode())
        return content


async def drive(url: str, path: str, bodies: list[bytes], concurrency: int) -> tuple[float, list[float]]:
    """Requests a second and each request's seconds, with this many requests in flight."""
    pending = iter(bodies)
    seconds: list[float] = []

    async def client() -> None:
        async with Connection(url) as connection:
            for body in pending:
                sent = time.perf_counter()
                await connection.post(path, body)
                seconds.append(time.perf_counter() - sent)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return len(bodies) / (time.perf_counter() - started), seconds


async def measure(url: str, model: str, load: Load, rounds: int, routes: list[str]) -> None:
    """Alternate between the routes and print the medians and their ratio."""
    rates: dict[str, list[float]] = {route: [] for route in routes}
    warm = Load(2 * load.concurrency, load.concurrency, load.new_tokens, load.prompt_tokens)
    await drive(url, "/v1/generate", [generate_body(prompt, warm) for prompt in prompts(warm, -1)], load.concurrency)
    for turn in range(rounds):
        for path in rates:
            asked = prompts(load, 2 * turn + (path == "/v1/generate"))
            bodies = [
                generate_body(prompt, load) if path == "/v1/generate" else completions_body(prompt, load, model)
                for prompt in asked
            ]
            rate, seconds = await drive(url, path, bodies, load.concurrency)
            rates[path].append(rate)
            seconds.sort()
            middle, late = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.95)]
            print(f"{path:<16} {rate:8.1f} requests/s   median {middle * 1000:6.0f} ms   95% {late * 1000:6.0f} ms")
    best = {path: sorted(found)[len(found) // 2] for path, found in rates.items()}
    if len(best) == len(ROUTES):
        print(f"/v1/generate answers {best['/v1/generate'] / best['/v1/completions']:.2f} times as many")


def served_name(url: str) -> str:
    """The name under which ``/v1/completions`` knows the model."""
    name: str = httpx.get(f"{url}/v1/models").json()["data"][0]["id"]
    return name


@contextmanager
def own_server(given: Path | None, flags: list[str]) -> Iterator[str]:
    """The URL of a server that runs meanwhile, with the model ``given`` or a random one."""
    with tempfile.TemporaryDirectory() as scratch:
        model = given or Path(scratch)
        if given is None:
            make_model(model)
        process, url = _started(model, flags)
        try:
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(15)


def _started(model: Path, flags: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    """A server, ready. Raises `TimeoutError` when it is not within five minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "services.policy_server", "--model", str(model), "--port", str(port), *flags]
    process = subprocess.Popen(command, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return process, url
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    process.kill()
    raise TimeoutError("the policy server did not become ready")


def main() -> None:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--routes", nargs="+", choices=ROUTES, default=ROUTES)
    parser.add_argument("flags", nargs="*", help="flags for the server, after --")
    chosen = parser.parse_args()
    load = Load(chosen.requests, chosen.concurrency, chosen.new_tokens, (100, 200))
    if chosen.url:
        asyncio.run(measure(chosen.url, served_name(chosen.url), load, chosen.rounds, chosen.routes))
        return
    with own_server(chosen.model, chosen.flags) as url:
        asyncio.run(measure(url, served_name(url), load, chosen.rounds, chosen.routes))


if __name__ == "__main__":
    main()
