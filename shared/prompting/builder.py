"""A step's prompt: the task, the last turns, what is seen now, and what can be done (DESIGN §7).

Every step's prompt is made anew, so it does not grow with the episode. The warm-up and the rollouts both make it here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.prompting.action import parse_action
from shared.prompting.template import PromptFormat, load_template
from shared.prompting.tokenizer import PolicyTokenizer
from shared.recipe import PromptSettings
from shared.schemas.environment import InfoValue


class PromptTooLongError(ValueError):
    """The task, the current observation and the admissible actions alone do not fit."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A past step, as prompts show it."""

    index: int
    """The step's index in the episode, from 0."""
    observation: str
    """What was seen before acting."""
    action: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What a step's prompt is made of."""

    task: str
    initial_observation: str
    history: Sequence[Turn]
    """All turns, oldest first."""
    observation: str
    """What is seen now."""
    admissible: Sequence[str]


Prompt = TypeVar("Prompt")


def task_text(observation: str, info: Mapping[str, InfoValue]) -> str:
    """What is to be done: ``goal`` where the first observation's info has one, else that observation."""
    goal = info.get("goal")
    return goal if isinstance(goal, str) and goal else observation


class PromptText:
    """The text of prompts, by one template."""

    def __init__(self, settings: PromptSettings) -> None:
        """Raises `shared.prompting.TemplateError` where the template is not there or not right."""
        self._settings = settings
        self.template = load_template(settings.template)

    def longest(self, scene: Scene, encode: Callable[[str], Prompt], size: Callable[[Prompt], int]) -> Prompt:
        """The prompt with as many of the last ``history_length`` turns as fit into ``max_tokens``, as ``size`` counts.

        Raises `PromptTooLongError` when it is too long without any.
        """
        settings, history = self._settings, scene.history
        shown = min(len(history), settings.history_length)
        while True:
            text = self.template.body.render(
                task=scene.task,
                initial_observation=scene.initial_observation,
                history=history[len(history) - shown :],
                observation=scene.observation,
                admissible=scene.admissible if settings.admissible_actions else (),
                step_index=len(history),
            )
            prompt = encode(text)
            if (tokens := size(prompt)) <= settings.max_tokens:
                return prompt
            if shown == 0:
                raise PromptTooLongError(
                    f"the prompt has {tokens} tokens without any history, prompt.max_tokens is "
                    f"{settings.max_tokens}: raise it, or set prompt.admissible_actions = false"
                )
            shown -= 1


class PromptBuilder:
    """Makes prompts by one template for one tokenizer. Safe to share between episodes."""

    def __init__(self, settings: PromptSettings, tokenizer: PolicyTokenizer) -> None:
        """Raises `shared.prompting.TemplateError` where the template is not there or not right."""
        self._tokenizer = tokenizer
        self._text = PromptText(settings)

    @property
    def stop_token_ids(self) -> list[int]:
        """Ids that end an action."""
        return self._tokenizer.stop_token_ids

    def start(self, observation: str, info: Mapping[str, InfoValue]) -> "EpisodePrompts[list[int]]":
        """The prompts of a new episode, from its first observation."""
        return EpisodePrompts(self.render, observation, info)

    def render(self, scene: Scene) -> list[int]:
        """Token ids of a step's prompt.

        As many of the last ``history_length`` turns as fit into ``max_tokens`` are shown. Raises `PromptTooLongError`
        when it is too long without any.
        """
        return self._text.longest(scene, self._encode, len)

    def action(self, token_ids: Sequence[int]) -> str:
        """The action that sampled tokens spell, as the environment gets it."""
        return parse_action(self._tokenizer.decode(token_ids), self._text.template.action)

    def answer_text(self, token_ids: Sequence[int]) -> str:
        """All that sampled tokens spell."""
        return self._tokenizer.decode(token_ids).strip()

    def answer(self, action: str) -> list[int]:
        """The tokens that spell an action, an end token last: what a plain policy should generate, for warm-up.

        Raises ValueError where the model has no end token.
        """
        if not self.stop_token_ids:
            raise ValueError("the model names no end token: set eos_token_id in its generation_config.json")
        return [*self._tokenizer.encode(action, special=False), self.stop_token_ids[0]]

    def _encode(self, text: str) -> list[int]:
        if self._text.template.format is PromptFormat.CHAT:
            return self._tokenizer.encode_chat(text)
        return self._tokenizer.encode(text)


class EpisodePrompts(Generic[Prompt]):
    """One episode's prompts: remembers the task and the turns."""

    def __init__(self, render: Callable[[Scene], Prompt], observation: str, info: Mapping[str, InfoValue]) -> None:
        """``observation`` and ``info`` are the episode's first; ``render`` makes a prompt of a scene."""
        self._render = render
        self._initial_observation = observation
        self._turns: list[Turn] = []
        self.task = task_text(observation, info)
        """What is to be done."""

    def render(self, observation: str, admissible: Sequence[str]) -> Prompt:
        """The next step's prompt. Raises `PromptTooLongError`."""
        return self._render(Scene(self.task, self._initial_observation, self._turns, observation, admissible))

    def record(self, observation: str, action: str) -> None:
        """Remember a step that was taken: what was seen, and what was done."""
        self._turns.append(Turn(len(self._turns), observation, action))
