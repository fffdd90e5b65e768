"""Token-in/token-out generation straight on the engine: no detokenising, no OpenAI protocol, one message per answer."""

import itertools
from typing import TYPE_CHECKING

from vllm.exceptions import VLLMClientError
from vllm.inputs import tokens_input
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from services.policy_server.engine import Running
from shared.problems import ProblemError
from shared.schemas.policy import FinishReason, GenerateRequest, GenerateResult, ScoreRequest, ScoreResult

if TYPE_CHECKING:
    from vllm.outputs import CompletionOutput, RequestOutput

SCORE_ATTEMPTS = 5


class Generator:
    """Asks the engine for tokens and for the log-probs of tokens."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._ids = itertools.count()

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """One sampled answer. Raises a 422 problem where the engine refuses the request."""
        sampling = request.sampling
        prompt = request.prompt_token_ids
        self._check_ids("prompt_token_ids", prompt)
        if sampling.stop_token_ids:
            self._check_ids("sampling.stop_token_ids", sampling.stop_token_ids)
        self._check_length(len(prompt) + 1)
        parameters = SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=sampling.seed,
            stop_token_ids=sampling.stop_token_ids or None,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )
        output = await self._ask(prompt, parameters, request.request_id)
        answer = output.outputs[0]
        token_ids = list(answer.token_ids)
        return GenerateResult.model_construct(
            token_ids=token_ids,
            logprobs=[answer.logprobs.logprobs[start] for start in answer.logprobs.start_indices],
            policy_versions=_versions(answer),
            finish_reason=FinishReason(answer.finish_reason),
            cached_tokens=output.num_cached_tokens or 0,
        )

    async def score(self, request: ScoreRequest) -> ScoreResult:
        """Log-probs of ``token_ids`` after the prompt, all under one version of the weights."""
        prompt = request.prompt_token_ids + request.token_ids
        self._check_ids("prompt_token_ids", request.prompt_token_ids)
        self._check_ids("token_ids", request.token_ids)
        self._check_length(len(prompt) + 1)
        parameters = SamplingParams(
            max_tokens=1,
            temperature=0.0,
            prompt_logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        client = self._running.client
        for _ in range(SCORE_ATTEMPTS):
            before = await client.get_weight_version()
            output = await self._ask(prompt, parameters, None)
            if await client.get_weight_version() == before:
                found = output.prompt_logprobs
                positions = range(len(request.prompt_token_ids), len(prompt))
                logprobs = [found.logprobs[found.start_indices[position]] for position in positions]
                return ScoreResult(logprobs=logprobs, policy_version=int(before))
        detail = f"the weights changed during each of {SCORE_ATTEMPTS} attempts; push less often while scoring"
        raise ProblemError(503, "weights-changing", "The weights keep changing", detail, headers={"Retry-After": "1"})

    async def _ask(self, prompt: list[int], parameters: SamplingParams, request_id: str | None) -> "RequestOutput":
        name = request_id or f"g{next(self._ids)}"
        try:
            last: RequestOutput | None = None
            async for output in self._running.client.generate(tokens_input(prompt), parameters, name):
                last = output
        except (VLLMClientError, ValueError) as error:
            raise ProblemError(422, "invalid-request", "The engine refuses the request", str(error)) from error
        except (EngineDeadError, EngineGenerateError) as error:
            detail = f"the engine failed on this request: {error or type(error).__name__}"
            raise ProblemError(
                503, "engine-failed", "The engine failed", detail, headers={"Retry-After": "5"}
            ) from error
        assert last is not None, "the engine ended a request without an answer"
        return last

    def _check_ids(self, field: str, ids: list[int]) -> None:
        if min(ids) < 0 or max(ids) >= self._running.vocabulary:
            worst = min(ids) if min(ids) < 0 else max(ids)
            detail = f"{field} holds {worst}; the model's token ids are 0 … {self._running.vocabulary - 1}"
            raise ProblemError(422, "invalid-request", "The request is not valid", detail)

    def _check_length(self, tokens: int) -> None:
        if tokens > self._running.max_model_len:
            detail = (
                f"the prompt and one new token are {tokens} tokens; this server takes {self._running.max_model_len} "
                "(max_model_len): shorten the prompt"
            )
            raise ProblemError(422, "prompt-too-long", "The prompt is too long", detail)


def _versions(answer: "CompletionOutput") -> list[int]:
    """The version that sampled each token, from vLLM's spans."""
    return [int(span.version) for span in answer.weight_versions or [] for _ in range(span.start, span.end)]
