"""Messages of the policy server's own routes (DESIGN §5): token-in/token-out generation and versioned weights.

vLLM's OpenAI-compatible routes stand beside these unchanged.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from shared.schemas.environment import Message


class SamplingSettings(Message):
    """How an action is sampled."""

    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """0 keeps every token."""
    stop_token_ids: list[int] = Field(default_factory=list)
    seed: int | None = None


class GenerateRequest(Message):
    """Body of ``POST /v1/generate``: one prompt, as token ids."""

    prompt_token_ids: list[int] = Field(min_length=1)
    sampling: SamplingSettings
    request_id: str | None = None


class FinishReason(StrEnum):
    """Why generation ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class GenerateResult(Message):
    """Answer of ``POST /v1/generate``."""

    token_ids: list[int]
    """The sampled tokens, the stop token included."""
    logprobs: list[float]
    """Log-probability of each sampled token under the distribution it was sampled from (temperature, top-p and
    top-k applied). Shape: ``len(token_ids)``, natural log."""
    policy_versions: list[int]
    """Version of the weights that sampled each token; more than one value where an update came in between."""
    finish_reason: FinishReason
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache."""


class WeightFile(Message):
    """Weights as safetensors files in a folder that the server can read (the ``file`` transport)."""

    transport: Literal["file"] = "file"
    path: str
    """Folder with ``model.safetensors`` (or several ``*.safetensors``), on a volume both sides see."""


class WeightStream(Message):
    """Weights that the server fetches as one safetensors stream (the ``http`` transport)."""

    transport: Literal["http"] = "http"
    url: str


class WeightNccl(Message):
    """Weights broadcast from the trainer's GPU by vLLM's own NCCL engine. Untested without a GPU."""

    transport: Literal["nccl"] = "nccl"
    master_address: str
    master_port: int
    world_size: int
    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]


WeightSource = Annotated[WeightFile | WeightStream | WeightNccl, Field(discriminator="transport")]


class WeightPush(Message):
    """Body of ``POST /v1/weights``."""

    version: int = Field(ge=0)
    """The policy version that these weights are: the trainer's count of optimizer updates."""
    digest: str
    """SHA-256 over the weights as `shared.weights_digest` defines it; what arrives must have it."""
    source: WeightSource
    expected_version: int | None = None
    """When given, the push is refused (409) unless the server holds this version."""


class WeightVersion(Message):
    """One entry of the history of weights."""

    version: int
    digest: str
    transport: str
    loaded_at: float
    """Unix time, seconds."""
    seconds: float
    """How long generation was paused for it."""


class WeightState(Message):
    """Answer of ``GET`` and ``POST /v1/weights``."""

    version: int
    digest: str
    model: str
    initial_digest: str
    """Of the weights that the server was started with, however many came since."""
    history: list[WeightVersion]
    """Newest last; the last 32 are kept."""


class ScoreRequest(Message):
    """Body of ``POST /v1/score``: log-probabilities of given tokens after a prompt, for parity checks."""

    prompt_token_ids: list[int] = Field(min_length=1)
    token_ids: list[int] = Field(min_length=1)


class ScoreResult(Message):
    """Answer of ``POST /v1/score``: log-probabilities at temperature 1. Shape: ``len(token_ids)``."""

    logprobs: list[float]
    policy_version: int
