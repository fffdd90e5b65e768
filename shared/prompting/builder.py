"""A step's prompt: the task, the last turns, what is seen now, and what can be done (DESIGN §7).

Every step's prompt is made anew, so it does not grow with the episode. The warm-up and the rollouts both make it here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def task_text(observation: str, info: Mapping[str, InfoValue]) -> str:
    """What is to be done: ``goal`` where the first observation's info has one, else that observation."""
    goal = info.get("goal")
    return goal if isinstance(goal, str) and goal else observation


class PromptBuilder:
    """Makes prompts by one template for one tokenizer. Safe to share between episodes."""

    def __init__(self, settings: PromptSettings, tokenizer: PolicyTokenizer) -> None:
        """Raises `shared.prompting.TemplateError` where the template is not there or not right."""
        self._settings = settings
        self._tokenizer = tokenizer
        self._template = load_template(settings.template)

    @property
    def stop_token_ids(self) -> list[int]:
        """Ids that end an action."""
        return self._tokenizer.stop_token_ids

    def start(self, observation: str, info: Mapping[str, InfoValue]) -> "EpisodePrompts":
        """The prompts of a new episode, from its first observation."""
        return EpisodePrompts(self, task_text(observation, info), observation)

    def render(
        self,
        task: str,
        initial_observation: str,
        history: Sequence[Turn],
        observation: str,
        admissible: Sequence[str],
    ) -> list[int]:
        """Token ids of a step's prompt; ``history`` has all turns, oldest first.

        As many of the last ``history_length`` turns as fit into ``max_tokens`` are shown. Raises `PromptTooLongError`
        when it is too long without any.
        """
        shown = min(len(history), self._settings.history_length)
        while True:
            text = self._template.body.render(
                task=task,
                initial_observation=initial_observation,
                history=history[len(history) - shown :],
                observation=observation,
                admissible=admissible if self._settings.admissible_actions else (),
                step_index=len(history),
            )
            ids = self._encode(text)
            if len(ids) <= self._settings.max_tokens:
                return ids
            if shown == 0:
                raise PromptTooLongError(
                    f"the prompt has {len(ids)} tokens without any history, prompt.max_tokens is "
                    f"{self._settings.max_tokens}: raise it, or set prompt.admissible_actions = false"
                )
            shown -= 1

    def action(self, token_ids: Sequence[int]) -> str:
        """The action that sampled tokens spell, as the environment gets it."""
        return parse_action(self._tokenizer.decode(token_ids), self._template.action)

    def answer(self, action: str) -> list[int]:
        """The tokens that spell an action, an end token last: what a plain policy should generate, for warm-up.

        Raises ValueError where the model has no end token.
        """
        if not self.stop_token_ids:
            raise ValueError("the model names no end token: set eos_token_id in its generation_config.json")
        return [*self._tokenizer.encode(action, special=False), self.stop_token_ids[0]]

    def _encode(self, text: str) -> list[int]:
        if self._template.format is PromptFormat.CHAT:
            return self._tokenizer.encode_chat(text)
        return self._tokenizer.encode(text)


class EpisodePrompts:
    """One episode's prompts: remembers the task and the turns."""

    def __init__(self, builder: PromptBuilder, task: str, initial_observation: str) -> None:
        """`PromptBuilder.start` makes these."""
        self._builder = builder
        self._initial_observation = initial_observation
        self._turns: list[Turn] = []
        self.task = task
        """What is to be done."""

    def render(self, observation: str, admissible: Sequence[str]) -> list[int]:
        """Token ids of the next step's prompt. Raises `PromptTooLongError`."""
        return self._builder.render(self.task, self._initial_observation, self._turns, observation, admissible)

    def record(self, observation: str, action: str) -> None:
        """Remember a step that was taken: what was seen, and what was done."""
        self._turns.append(Turn(len(self._turns), observation, action))
