"""What an iteration of the policy server's engine, a decoded token and a prompt token cost: the units of `gagpo plan`.

    python -m benchmarks.generation_costs [--url URL | --model DIR] [--requests 400]

With n requests of P uncached prompt tokens and g new tokens in flight, an engine that batches continuously takes

    1 / rate = (g / n) × iteration + g × decode + P × prefill        seconds a request

so rates at several n, P and g give the three units by least squares, none below 0.
"""

import argparse
import asyncio
import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.policy_server import VOCABULARY, Connection, drive, own_server

SHAPES = ((1, 16, 8), (4, 16, 24), (16, 16, 24), (64, 16, 24), (64, 240, 2), (16, 240, 6), (64, 60, 6))
"""Requests in flight, prompt tokens, most new tokens."""
NAMES = ("iteration", "decode", "prefill")


@dataclass(frozen=True, slots=True)
class Rate:
    """One shape, measured."""

    in_flight: int
    prompt_tokens: int
    new_tokens: float
    requests_per_s: float


async def measure(url: str, requests: int, rounds: int) -> list[Rate]:
    """The rate of every shape, the best of some rounds: what else the machine does only ever slows it down."""
    draw = random.Random(0)
    found = []
    for in_flight, prompt_tokens, most in SHAPES:
        count = max(in_flight, requests * in_flight // 64)
        rates = []
        for _ in range(rounds):
            prompts = [[draw.randrange(4, VOCABULARY) for _ in range(prompt_tokens)] for _ in range(count)]
            sampling = {"max_tokens": most, "temperature": 1.0}
            bodies = [json.dumps({"prompt_token_ids": prompt, "sampling": sampling}).encode() for prompt in prompts]
            rate, lengths = await _counted(url, bodies, in_flight)
            rates.append(Rate(in_flight, prompt_tokens, lengths, rate))
        best = max(rates, key=lambda one: one.requests_per_s)
        print(
            f"{in_flight:3} in flight, {prompt_tokens:3} prompt and {best.new_tokens:4.1f} new tokens: "
            f"{best.requests_per_s:6.1f} requests/s"
        )
        found.append(best)
    return found


async def _counted(url: str, bodies: list[bytes], in_flight: int) -> tuple[float, float]:
    """Requests a second, and the mean number of new tokens."""
    rate, _ = await drive(url, "/v1/generate", bodies, in_flight)
    answers = itertools.islice(bodies, 8)
    lengths = [await _length(url, body) for body in answers]
    return rate, sum(lengths) / len(lengths)


async def _length(url: str, body: bytes) -> int:
    async with Connection(url) as connection:
        return len(json.loads(await connection.post("/v1/generate", body))["token_ids"])


def fit(rates: list[Rate]) -> NDArray[np.float64]:
    """Seconds of an iteration, a decoded token, a prompt token: every shape counts by its relative error."""
    rows = np.array([[one.new_tokens / one.in_flight, one.new_tokens, one.prompt_tokens] for one in rates])
    weighted = rows * np.array([[one.requests_per_s] for one in rates])
    for kept in itertools.chain.from_iterable(itertools.combinations(range(3), size) for size in (3, 2, 1)):
        solution = np.zeros(3)
        solution[list(kept)] = np.linalg.lstsq(weighted[:, kept], np.ones(len(rates)), rcond=None)[0]
        if (solution >= 0).all():
            return solution
    raise ValueError("no costs fit these rates")


def report(rates: list[Rate]) -> None:
    """Print the three units, and how well they explain each rate."""
    units = fit(rates)
    for name, seconds in zip(NAMES, units, strict=True):
        print(f"{name:<10} {1e3 * seconds:8.4f} ms")
    for one in rates:
        row = np.array([one.new_tokens / one.in_flight, one.new_tokens, one.prompt_tokens])
        print(f"{one.in_flight:3} in flight: {1 / float(row @ units) / one.requests_per_s:.2f} of the measured rate")


def main() -> None:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--requests", type=int, default=400, help="for 64 in flight; fewer in proportion")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("flags", nargs="*", help="flags for the server, after --")
    chosen = parser.parse_args()
    if chosen.url:
        report(asyncio.run(measure(chosen.url, chosen.requests, chosen.rounds)))
        return
    with own_server(chosen.model, chosen.flags) as url:
        report(asyncio.run(measure(url, chosen.requests, chosen.rounds)))


if __name__ == "__main__":
    main()
