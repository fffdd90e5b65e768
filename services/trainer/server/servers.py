"""What the running env and policy servers say that they can do."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.trainer.server.settings import TrainerSettings
from shared.problems import ProblemError
from shared.schemas.environment import EnvironmentDescription, EnvironmentList
from shared.schemas.policy import WeightState
from shared.service import Scope, authorization

RETRY_AFTER_S = 5


class _ModelCard(BaseModel):
    """One model of ``GET /v1/models``, as vLLM tells it."""

    model_config = ConfigDict(extra="ignore")

    id: str
    root: str
    max_model_len: int | None = None


class _ModelList(BaseModel):
    model_config = ConfigDict(extra="ignore")

    data: list[_ModelCard] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model that a policy server was started with."""

    url: str
    name: str
    folder: Path
    """As the policy server sees it."""
    longest_sequence: int | None
    """Most tokens of prompt and answer together; None where the server does not say."""
    initial_digest: str
    """Of its weights at the start."""


Answer = TypeVar("Answer", bound=BaseModel)


class Servers:
    """Asks the env and policy servers."""

    def __init__(self, settings: TrainerSettings, client: httpx.AsyncClient) -> None:
        """``client`` stays open as long as this is used."""
        self._settings = settings
        self._client = client

    @property
    def client(self) -> httpx.AsyncClient:
        """For other questions to them."""
        return self._client

    async def environments(self) -> dict[str, EnvironmentDescription]:
        """Name → description of every environment that all env servers have. Raises a 503 `ProblemError`."""
        lists = await asyncio.gather(*(self._environments(url) for url in self._settings.env_urls))
        first, *others = lists
        return {name: one for name, one in first.items() if all(name in other for other in others)}

    async def models(self) -> list[ServedModel]:
        """The model of each policy server. Raises a 503 `ProblemError`."""
        return await asyncio.gather(*(self._model(url) for url in self._settings.policy_urls))

    async def _environments(self, url: str) -> dict[str, EnvironmentDescription]:
        answer = await self._get("env server", f"{url}/v1/environments", Scope.ENVIRONMENTS, EnvironmentList)
        return {one.name: one for one in answer.environments}

    async def _model(self, url: str) -> ServedModel:
        models, weights = await asyncio.gather(
            self._get("policy server", f"{url}/v1/models", Scope.GENERATE, _ModelList),
            self._get("policy server", f"{url}/v1/weights", Scope.WEIGHTS, WeightState),
        )
        card = models.data[0]
        return ServedModel(url, card.id, Path(card.root), card.max_model_len, weights.initial_digest)

    async def _get(self, who: str, url: str, scope: Scope, kind: type[Answer]) -> Answer:
        try:
            answer = await self._client.get(url, headers=authorization(scope))
        except httpx.TransportError as error:
            raise unavailable(who, url, f"{type(error).__name__}: {error}") from error
        if not answer.is_success:
            raise unavailable(who, url, f"HTTP {answer.status_code} {answer.text[:300]}")
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise unavailable(who, url, f"its answer is not what a {who} says: {error}") from error


def unavailable(who: str, url: str, reason: str) -> ProblemError:
    """The problem that a server which the job needs does not answer."""
    return ProblemError(
        503,
        "server-unavailable",
        f"The {who} does not answer",
        f"GET {url}: {reason}. The recipe is checked against the running servers: submit it again once they are up.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )
