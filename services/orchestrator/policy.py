"""The policy servers, as the orchestrator sees them: prompt in, sampled tokens out."""

import asyncio
import time
from dataclasses import dataclass

from services.orchestrator.http import ReplicaSet, ServerUnavailableError
from shared.recipe import SamplingDefaults
from shared.schemas.policy import FinishReason, GenerateRequest, GenerateResult, SamplingSettings

_STALE_WAIT_S = 0.25


@dataclass(frozen=True, slots=True)
class Sampling:
    """How actions are sampled."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    stop_token_ids: tuple[int, ...]

    @classmethod
    def of(cls, given: SamplingDefaults, stop_token_ids: list[int], temperature: float | None = None) -> "Sampling":
        """A recipe's sampling, with another temperature if one is given."""
        return cls(
            max_tokens=given.max_tokens,
            temperature=given.temperature if temperature is None else temperature,
            top_p=given.top_p,
            top_k=given.top_k,
            stop_token_ids=tuple(stop_token_ids),
        )


class PolicyPool:
    """All policy servers together."""

    def __init__(self, replicas: ReplicaSet, deadline_s: float) -> None:
        """``replicas`` has to be open while this is used; ``deadline_s`` bounds the wait for new enough weights."""
        self._replicas = replicas
        self._deadline_s = deadline_s

    async def generate(self, prompt: list[int], sampling: Sampling, least_version: int, seed: int) -> GenerateResult:
        """Sample an action; all its tokens are of version ``least_version`` or newer.

        Raises `ServerProblemError`, and `ServerUnavailableError` when no server has weights that new within the
        deadline.
        """
        request = GenerateRequest.model_construct(
            prompt_token_ids=prompt,
            sampling=SamplingSettings.model_construct(
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                stop_token_ids=list(sampling.stop_token_ids),
                seed=seed,
            ),
        )
        body = request.model_dump_json(exclude_none=True).encode()
        give_up = time.monotonic() + self._deadline_s
        while True:
            result = GenerateResult.model_validate_json(await self._replicas.request("POST", "/v1/generate", body))
            aborted = result.finish_reason is FinishReason.ABORT or not result.token_ids
            if not aborted and min(result.policy_versions) >= least_version:
                return result
            if time.monotonic() > give_up:
                why = "an aborted answer" if aborted else f"version {min(result.policy_versions)}"
                raise ServerUnavailableError(
                    f"the policy servers still gave {why} after {self._deadline_s:.0f} s, version {least_version} or "
                    "newer was wanted: see GET /v1/weights there"
                )
            # A server that restarted may serve older weights for a moment.
            await asyncio.sleep(_STALE_WAIT_S)
