"""The policy servers, as the orchestrator sees them: prompt in, sampled tokens out."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from services.orchestrator.http import Answer, ReplicaSet, ServerUnavailableError
from services.orchestrator.knowledge import LOOK_TIMEOUT_S, Knowledge
from services.orchestrator.replicas import Replica
from shared.recipe import SamplingDefaults
from shared.schemas.policy import FinishReason, GenerateRequest, GenerateResult, SamplingSettings, WeightState

_STALE_WAIT_S = 0.05


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


OfJob = Callable[[int, str], Awaitable[bool]]
"""Version and digest of weights → whether they are the job's."""


async def any_weights(version: int, digest: str) -> bool:
    """Whatever is being served, where no job says what should be."""
    return True


@dataclass(frozen=True, slots=True)
class Held:
    """The weights that a policy server has."""

    version: int
    of_job: bool

    def serves(self, least_version: int) -> bool:
        """Whether they are the job's, and new enough."""
        return self.of_job and self.version >= least_version


class PolicyPool:
    """All policy servers together. One whose weights are too old, or another job's, is left out."""

    def __init__(self, replicas: ReplicaSet, deadline_s: float, of_job: OfJob = any_weights) -> None:
        """``replicas`` has to be open while this is used; ``deadline_s`` bounds the wait for new enough weights."""
        self._replicas = replicas
        self._deadline_s = deadline_s
        self._of_job = of_job
        self._weights = Knowledge(self._look)

    async def leave(self) -> None:
        """Ask no more servers for their weights."""
        await self._weights.close()

    def held(self, replica: Replica, newest: int) -> Held | None:
        """A replica's weights when last seen; None where they are not known.

        Where they are not those of version ``newest`` or newer, it is looked at again soon.
        """
        held = self._weights.of(replica)
        if held is None or not held.serves(newest):
            self._weights.doubt(replica)
        return held

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
            answer = await self._ask(body, least_version)
            result = GenerateResult.model_validate_json(answer.content)
            aborted = result.finish_reason is FinishReason.ABORT or not result.token_ids
            if not aborted:
                self._compare(answer.replica, result.policy_versions[-1])
                if min(result.policy_versions) >= least_version:
                    return result
            if time.monotonic() > give_up:
                why = "an aborted answer" if aborted else f"version {min(result.policy_versions)}"
                raise ServerUnavailableError(
                    f"the policy servers still gave {why} after {self._deadline_s:.0f} s, version {least_version} or "
                    "newer was wanted: see GET /v1/weights there"
                )
            # New weights came while it answered, or a server that restarted has older ones for a moment.
            await asyncio.sleep(_STALE_WAIT_S)

    async def _ask(self, body: bytes, least_version: int) -> Answer:
        def usable(replica: Replica) -> bool:
            held = self.held(replica, least_version)
            return held is not None and held.serves(least_version)

        try:
            return await self._replicas.ask("POST", "/v1/generate", body, usable=usable)
        except ServerUnavailableError as error:
            raise ServerUnavailableError(
                f"{error}; wanted: version {least_version} or newer, there: {self._shown()}"
            ) from error

    def _compare(self, replica: Replica, version: int) -> None:
        """Whoever answers with another version than it had was given new weights, or started again."""
        held = self._weights.of(replica)
        if held is None or held.version != version:
            self._weights.forget(replica)

    async def _look(self, replica: Replica) -> Held:
        answer = await self._replicas.ask_only(replica, "/v1/weights", LOOK_TIMEOUT_S)
        state = WeightState.model_validate_json(answer)
        return Held(state.version, await self._of_job(state.version, state.digest))

    def _shown(self) -> str:
        held = {replica.url: self._weights.of(replica) for replica in self._replicas.replicas}
        return ", ".join(f"{url}: {_told(one)}" for url, one in held.items()) or "no server"


def _told(held: Held | None) -> str:
    if held is None:
        return "unknown"
    return str(held.version) if held.of_job else "weights of another job"
