"""The env server as the warm-up sees it: expert episodes to learn from, and episodes of the policy to judge it by."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

from shared.prompting import EMPTY_ACTION, EpisodePrompts, PromptBuilder
from shared.recipe import EnvironmentSettings
from shared.schemas.environment import (
    EnvironmentList,
    InfoValue,
    Observation,
    Problem,
    SessionList,
    SessionRequest,
    SessionStep,
    StepBatch,
    StepBatchResult,
    StepResult,
    TaskPage,
)
from shared.service import Scope, authorization

WAVE = 256
"""Episodes in flight at once; every request to the env server steps all of them."""
PAGE = 10_000
TIMEOUT_S = 120.0


class EnvServerError(Exception):
    """The env server refused a request; the message holds its problem document."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One step of an expert, as the policy should answer it."""

    prompt: list[int]
    answer: list[int]
    """The action's tokens, the end token last."""


@dataclass(frozen=True, slots=True)
class Slips:
    """How an expert errs, so that the policy sees how to go on from there."""

    share: float
    """Of the steps on which it does anything else."""
    failed: float = 1 / 3
    """Share of the slips that are actions from other situations, most of which are not possible here."""
    never: tuple[str, ...] = ()
    """Beginnings of actions that are no slips: those that end the episode, or that only stand for others."""


@dataclass(frozen=True, slots=True)
class Teacher:
    """The env server's expert, and what becomes of its advice."""

    slips: Slips
    options: dict[str, InfoValue] = field(default_factory=lambda: {"expert_style": "searching"})
    """The session's options that make it; ``expert`` and a seed of its own for every episode are added."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one episode went."""

    task_id: str
    won: bool
    reward: float
    """All of the episode's rewards together, as the environment gives them."""
    steps: int
    invalid: int
    """Steps that the environment did not understand."""


class EnvServer:
    """A connection to an env server. Use as a context manager."""

    def __init__(self, url: str, environment: EnvironmentSettings) -> None:
        """``environment`` names what is played there, and with which step limit."""
        self._client = httpx.Client(
            base_url=url.rstrip("/"), headers=authorization(Scope.ENVIRONMENTS), timeout=TIMEOUT_S
        )
        self._environment = environment

    def __enter__(self) -> Self:
        """Nothing is asked of the server yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the connections."""
        self._client.close()

    def tasks(self, split: str) -> list[str]:
        """All task ids of a split, in order."""
        tasks: list[str] = []
        while True:
            query: dict[str, str | int] = {"split": split, "offset": len(tasks), "limit": PAGE}
            page = TaskPage.model_validate_json(
                self._ask("GET", f"/v1/environments/{self._environment.name}/tasks", query=query)
            )
            tasks += page.tasks
            if len(tasks) >= page.total or not page.tasks:
                return tasks

    def data_digest(self) -> str:
        """SHA-256 of the environment's task data, which names it on any machine."""
        listed = EnvironmentList.model_validate_json(self._ask("GET", "/v1/environments")).environments
        return next(entry.data_digest for entry in listed if entry.name == self._environment.name)

    def open(self, task_id: str, options: dict[str, InfoValue]) -> Observation:
        """A new session of a task."""
        request = SessionRequest(
            environment=self._environment.name,
            task_id=task_id,
            max_steps=self._environment.max_steps,
            options={**self._environment.options, **options},
        )
        body = request.model_dump_json(exclude_none=True)
        return SessionList.model_validate_json(self._ask("POST", "/v1/sessions", body=body)).sessions[0]

    def step(self, steps: Sequence[SessionStep]) -> list[StepResult]:
        """Step many sessions at once. Raises `EnvServerError` where one of them cannot be stepped."""
        body = StepBatch(steps=list(steps)).model_dump_json()
        results: list[StepResult] = []
        for result in StepBatchResult.model_validate_json(self._ask("POST", "/v1/steps", body=body)).results:
            if isinstance(result, Problem):
                raise EnvServerError(f"POST /v1/steps: {result.title}: {result.detail}")
            results.append(result)
        return results

    def close(self, session_id: str) -> None:
        """Free a session before its time."""
        self._ask("DELETE", f"/v1/sessions/{session_id}")

    def _ask(
        self, method: str, path: str, *, body: str | None = None, query: dict[str, str | int] | None = None
    ) -> bytes:
        response = self._client.request(
            method, path, content=body, params=query, headers={"content-type": "application/json"}
        )
        if response.is_error:
            raise EnvServerError(f"{method} {path}: HTTP {response.status_code}: {response.text[:500]}")
        return response.content


@dataclass(slots=True)
class _Live:
    """An episode that is still going."""

    seen: Observation
    prompts: EpisodePrompts[list[int]]
    reward: float = 0.0
    invalid: int = 0

    def prompt(self) -> list[int]:
        return self.prompts.render(self.seen.observation, self.seen.admissible_actions)


Policy = Callable[[Sequence[list[int]], Sequence[Observation]], list[str]]
"""From the prompts and observations of several episodes to an action for each."""


def play(
    server: EnvServer,
    builder: PromptBuilder,
    tasks: Sequence[str],
    options: Callable[[int], dict[str, InfoValue]],
    policy: Policy,
) -> Iterator[Outcome]:
    """Play one episode of each task, many at once, and yield their ends as they come; ``options`` go by number."""
    for start in range(0, len(tasks), WAVE):
        numbers = range(start, min(start + WAVE, len(tasks)))
        opened = [server.open(tasks[number], options(number)) for number in numbers]
        live = [_Live(seen, builder.start(seen.observation, seen.info)) for seen in opened]
        while live:
            actions = policy([episode.prompt() for episode in live], [episode.seen for episode in live])
            steps = [
                SessionStep(session_id=e.seen.session_id, action=action, step_index=e.seen.step_index)
                for e, action in zip(live, actions, strict=True)
            ]
            going = []
            for episode, action, result in zip(live, actions, server.step(steps), strict=True):
                episode.prompts.record(episode.seen.observation, action)
                episode.seen = result
                episode.reward += result.reward
                episode.invalid += result.info.get("valid_action") is False
                if not (result.terminated or result.truncated):
                    going.append(episode)
                    continue
                won = bool(result.info.get("won"))
                yield Outcome(result.task_id, won, episode.reward, result.step_index, episode.invalid)
                server.close(result.session_id)
            live = going


class SlippingExpert:
    """A policy that does what the env server's expert would do, slips now and then, and keeps the samples.

    A slip moves the episode somewhere else and is no sample: the policy learns how to go on from there, not to slip.
    """

    def __init__(self, builder: PromptBuilder, teacher: Teacher, seed: int) -> None:
        """``seed`` decides where it slips and, with the episode's number, how each expert goes about it."""
        self._samples: dict[str, list[Sample]] = {}
        self._builder = builder
        self._teacher = teacher
        self._seed = seed
        self._random = random.Random(seed)
        self._elsewhere: list[str] = []

    def options(self, episode: int) -> dict[str, InfoValue]:
        """The session's options of an episode: an expert for each, going about it in a way of its own."""
        return {"expert": True, **self._teacher.options, "expert_seed": (self._seed << 24) + episode}

    def __call__(self, prompts: Sequence[list[int]], seen: Sequence[Observation]) -> list[str]:
        """One action for each episode."""
        actions = []
        for prompt, observation in zip(prompts, seen, strict=True):
            advice = self._advice(observation)
            samples = self._samples.setdefault(observation.session_id, [])
            slips = advice is None or self._random.random() < self._teacher.slips.share
            action = self._slip(observation) if slips else None
            if action is None and advice is not None:
                samples.append(Sample(prompt, self._builder.answer(advice)))
            action = action or advice or EMPTY_ACTION
            actions.append(action)
        return actions

    def episodes(self) -> list[list[Sample]]:
        """The samples of every episode so far, episodes in the order in which they were opened."""
        return list(self._samples.values())

    def _slip(self, seen: Observation) -> str | None:
        """Something that can be done, or now and then that could be done elsewhere; None where nothing can be."""
        slips = self._teacher.slips
        possible = [action for action in seen.admissible_actions if not action.startswith(slips.never)]
        if not possible:
            return None
        if self._random.random() < slips.failed:
            self._elsewhere.append(self._random.choice(possible))
            return self._random.choice(self._elsewhere)
        return self._random.choice(possible)

    def _advice(self, seen: Observation) -> str | None:
        """What the expert would do; None where it is at a loss."""
        if "expert_action" not in seen.info:
            raise EnvServerError(
                f"session of {seen.task_id}: info has no expert_action; to warm a policy up the environment needs an "
                "expert (option expert = true)"
            )
        action = seen.info["expert_action"]
        return action if isinstance(action, str) else None
