"""Any OpenAI-compatible endpoint as a policy. Imported only where one is wanted: the client library loads slowly."""

import asyncio
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI
from openai.types import Completion
from openai.types.chat import ChatCompletion
from pydantic import JsonValue

from services.orchestrator.environments import SetupError
from services.orchestrator.episode import TurnSeeds
from services.orchestrator.evaluation.policies import EvaluatedMove
from services.orchestrator.http import ServerProblemError, ServerUnavailableError
from services.orchestrator.setup import Servers
from services.orchestrator.turns import Actor
from shared.prompting import ActionFormat, EpisodePrompts, PromptText, Scene, parse_action
from shared.recipe import EnvironmentSettings, SamplingDefaults
from shared.schemas.environment import Observation
from shared.schemas.evaluation import EndpointApi, EndpointPolicy

_MOST_RETRIES = 30
"""More than fit into any deadline, which is what ends the tries."""

_LETTERS_A_TOKEN = 4
"""About as many as English has: how a prompt's length is judged without the model's tokenizer."""

_NO_KEY = "none"
"""Sent where no key is set: a server of one's own mostly asks for none."""


@dataclass(frozen=True, slots=True)
class Said:
    """An endpoint's answer."""

    text: str
    tokens: int
    """0 where the endpoint does not count."""
    prompt_tokens: int


class Endpoint:
    """A connection to an endpoint. Requests that are not taken are tried again until the deadline."""

    def __init__(self, policy: EndpointPolicy, servers: Servers) -> None:
        """Connects to nothing yet."""
        self.policy = policy
        self._deadline_s = servers.request_deadline_s
        self._client = AsyncOpenAI(
            base_url=policy.url,
            api_key=os.environ.get(policy.key_variable) or _NO_KEY,
            timeout=servers.request_timeout_s,
            max_retries=_MOST_RETRIES,
        )

    async def __aenter__(self) -> Self:
        """Ask for one token. Raises `SetupError` where the endpoint refuses the key, the model or a field."""
        try:
            await self.ask("Hello", SamplingDefaults(max_tokens=1), 1.0, 0, [])
        except (ServerProblemError, ServerUnavailableError) as error:
            await self._client.close()
            raise SetupError(f"the endpoint cannot be used as it was asked: {error}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask(
        self, prompt: str, sampling: SamplingDefaults, temperature: float, seed: int, stop: list[str]
    ) -> Said:
        """One answer. Raises `ServerProblemError` for a refusal and `ServerUnavailableError` after the deadline."""
        body = self._body(prompt, sampling, temperature, seed, stop)
        try:
            async with asyncio.timeout(self._deadline_s):
                if self.policy.api is EndpointApi.CHAT:
                    chat = await self._client.post("/chat/completions", cast_to=ChatCompletion, body=body)
                    said = chat.choices[0].message.content if chat.choices else None
                    return _said(said, chat)
                completion = await self._client.post("/completions", cast_to=Completion, body=body)
                return _said(completion.choices[0].text if completion.choices else None, completion)
        except (APIConnectionError, TimeoutError) as error:
            raise ServerUnavailableError(f"{self.policy.url}: {error or 'no answer before the deadline'}") from error
        except APIStatusError as error:
            raise ServerProblemError(f"{error.request.url}: {error.message}", None) from error
        except APIError as error:
            raise ServerProblemError(f"{self.policy.url}: {error.message}", None) from error

    def _body(
        self, prompt: str, sampling: SamplingDefaults, temperature: float, seed: int, stop: list[str]
    ) -> dict[str, JsonValue]:
        """The request; what may be left out is, since not every endpoint knows every field."""
        chat = self.policy.api is EndpointApi.CHAT
        body: dict[str, JsonValue] = {
            "model": self.policy.model,
            **({"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}),
            "max_tokens": sampling.max_tokens,
            "temperature": temperature,
            "seed": seed,
            "top_p": sampling.top_p if sampling.top_p < 1 else None,
            "top_k": sampling.top_k or None,
            "stop": list(stop) or None,
            **self.policy.body,
        }
        return {field: value for field, value in body.items() if value is not None}


class EndpointPlayer:
    """Plays one environment by asking an endpoint."""

    def __init__(self, endpoint: Endpoint, environment: EnvironmentSettings, temperature: float) -> None:
        """The endpoint has to be open while this is used. Raises `TemplateError` for a template that is not right."""
        self._endpoint = endpoint
        self._sampling = environment.sampling
        self._temperature = temperature
        self._text = PromptText(environment.prompt)
        self._action = self._text.template.action
        whole = self._action is ActionFormat.WHOLE
        # A model that goes on with a text goes on with the environment's answer, too, where nothing stops it.
        self._stop = ["\n"] if whole and endpoint.policy.api is EndpointApi.COMPLETIONS else []

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """A new episode, from its first observation."""
        return _EndpointEpisode(self, EpisodePrompts(self._render, first.observation, first.info), seeds)

    async def sample(self, prompt: str, seed: int) -> EvaluatedMove:
        """One move."""
        said = await self._endpoint.ask(prompt, self._sampling, self._temperature, seed, self._stop)
        action = parse_action(said.text, self._action)
        answer = None if said.text.strip() == action else said.text
        return EvaluatedMove(action, answer, said.tokens, said.prompt_tokens)

    def _render(self, scene: Scene) -> str:
        return self._text.longest(scene, str, lambda text: len(text) // _LETTERS_A_TOKEN)


@dataclass(frozen=True, slots=True)
class _EndpointEpisode:
    player: EndpointPlayer
    prompts: EpisodePrompts[str]
    seeds: TurnSeeds

    async def act(self, now: Observation, turn: int) -> EvaluatedMove:
        move = await self.player.sample(
            self.prompts.render(now.observation, now.admissible_actions), self.seeds.at(turn)
        )
        self.prompts.record(now.observation, move.action)
        return move


def _said(text: str | None, answer: ChatCompletion | Completion) -> Said:
    usage = answer.usage
    if usage is None:
        return Said(text or "", 0, 0)
    return Said(text or "", usage.completion_tokens, usage.prompt_tokens)
