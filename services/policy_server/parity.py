"""Do the server and Hugging Face agree on the log-probs of what the server sampled?

    python -m services.policy_server.parity --model DIR --server URL

prints one JSON object and ends with status 1 where they differ by more than the limits. ``DIR`` must hold the weights
that the server serves at the moment.
"""

import argparse
import asyncio
import json
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from shared.schemas.policy import GenerateRequest, GenerateResult, SamplingSettings
from shared.service import Scope, authorization

MEAN_LIMIT = 1e-5
"""Largest mean difference in float32, nats."""

MAX_LIMIT = 1e-4
"""Largest single difference in float32, nats."""


@dataclass(frozen=True)
class Parity:
    """How far the server's log-probs and Hugging Face's are apart, nats."""

    tokens: int
    mean: float
    max: float
    policy_version: int
    within: bool


def reference_logprobs(
    model: PreTrainedModel, prompt: list[int], tokens: list[int], sampling: SamplingSettings
) -> list[float]:
    """Hugging Face's log-probs of ``tokens`` after ``prompt`` under the distribution that ``sampling`` samples from.

    Temperature, then top-k, then top-p on what top-k left, as vLLM orders them. Temperature 0 counts as 1.
    """
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0].float()
    rows = logits[len(prompt) - 1 : len(prompt) - 1 + len(tokens)] / (sampling.temperature or 1.0)
    if sampling.top_k:
        smallest = rows.topk(min(sampling.top_k, rows.shape[-1])).values[:, -1:]
        rows = rows.masked_fill(rows < smallest, -torch.inf)
    if sampling.top_p < 1.0:
        ordered, places = rows.sort(descending=True)
        probabilities = ordered.softmax(-1)
        # A token stays when the likelier ones do not reach top_p yet.
        ordered = ordered.masked_fill(probabilities.cumsum(-1) - probabilities >= sampling.top_p, -torch.inf)
        rows = torch.full_like(rows, -torch.inf).scatter(-1, places, ordered)
    found: list[float] = rows.log_softmax(-1).gather(-1, torch.tensor(tokens)[:, None])[:, 0].tolist()
    return found


def random_prompts(vocabulary: int, count: int, seed: int) -> list[list[int]]:
    """Seeded prompts of 4 to 64 token ids."""
    draw = random.Random(seed)
    return [[draw.randrange(vocabulary) for _ in range(draw.randint(4, 64))] for _ in range(count)]


async def sample(server: str, prompts: list[list[int]], sampling: SamplingSettings) -> list[GenerateResult]:
    """The server's answers to all prompts at once. Raises `httpx.HTTPError` where one is refused."""
    async with httpx.AsyncClient(
        base_url=server, headers=authorization(Scope.GENERATE), timeout=120, trust_env=False
    ) as client:

        async def one(prompt: list[int]) -> GenerateResult:
            body = GenerateRequest(prompt_token_ids=prompt, sampling=sampling)
            answer = await client.post("/v1/generate", json=body.model_dump())
            answer.raise_for_status()
            return GenerateResult.model_validate_json(answer.content)

        return list(await asyncio.gather(*(one(prompt) for prompt in prompts)))


def differences(
    model: PreTrainedModel, prompts: list[list[int]], answers: list[GenerateResult], sampling: SamplingSettings
) -> list[float]:
    """Absolute difference of each sampled token's log-prob, nats."""
    return [
        abs(reported - expected)
        for prompt, answer in zip(prompts, answers, strict=True)
        for reported, expected in zip(
            answer.logprobs, reference_logprobs(model, prompt, answer.token_ids, sampling), strict=True
        )
    ]


def check(model_folder: Path, server: str, requests: int, seed: int) -> Parity:
    """Sample from the server and compare."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32, local_files_only=True).eval()
    prompts = random_prompts(model.config.vocab_size, requests, seed)
    sampling = SamplingSettings(max_tokens=16)
    answers = asyncio.run(sample(server, prompts, sampling))
    found = differences(model, prompts, answers, sampling)
    mean, worst = sum(found) / len(found), max(found)
    version = max(version for answer in answers for version in answer.policy_versions)
    return Parity(len(found), mean, worst, version, mean <= MEAN_LIMIT and worst <= MAX_LIMIT)


def main() -> int:
    """Read the flags, check, print; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m services.policy_server.parity", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder with the weights that the server serves")
    parser.add_argument("--server", required=True, help="the server's URL")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    try:
        result = check(chosen.model, chosen.server.rstrip("/"), chosen.requests, chosen.seed)
    except (httpx.HTTPError, OSError) as error:
        print(json.dumps({"error": f"{chosen.server}: {str(error) or type(error).__name__}"}))
        return 2
    print(json.dumps(asdict(result)))
    return 0 if result.within else 1


if __name__ == "__main__":
    sys.exit(main())
