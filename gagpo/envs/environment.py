"""One episode at a time: an env server's environment as a `gymnasium.Env`."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from gagpo.envs.sessions import Sessions, TaskChoice
from gagpo.envs.spaces import Line, Prose
from shared.schemas.environment import InfoValue, Observation, StepResult

METADATA: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}
"""Text has no frames; gymnasium wants to be told how many."""


class TextEnv(gymnasium.Env[str, str]):
    """An environment of an env server. Observations and actions are text; ``info["admissible_actions"]`` lists some.

    A step is safe: its request carries its number, and is sent again until the server has answered.
    """

    metadata = METADATA

    def __init__(
        self,
        environment: str,
        url: str | None = None,
        *,
        split: str | None = None,
        max_steps: int | None = None,
        state_key: str = "observation",
        options: Mapping[str, InfoValue] | None = None,
        patience_s: float = 60.0,
        render_mode: str | None = None,
    ) -> None:
        """``environment`` as the server at ``url`` names it; opens no episode yet.

        ``split`` is where seeds draw tasks from (by default the environment's first), ``max_steps`` the step limit (by
        default its own), ``state_key`` the kind of ``info["state_key"]``, ``options`` are the environment's own. A
        request that a server refuses for the moment, or that is lost, is sent again for ``patience_s`` seconds.
        Raises `EnvironmentServerError` where the server is not there or lacks the environment, and `ValueError`.
        """
        self.render_mode = render_mode
        self.observation_space = Prose()
        self.action_space = Line()
        self._now: Observation | None = None
        self._action: str | None = None
        self._sessions = Sessions(url, environment, split, max_steps, state_key, options, patience_s)

    @property
    def session_id(self) -> str | None:
        """The episode's id on the server; None before the first reset."""
        return None if self._now is None else self._now.session_id

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Open an episode: of ``options["task_id"]``, of ``options["index"]`` in a split, or of a task that is drawn.

        A ``seed`` draws the task that the env server draws for it; without one, the generator that the last seed began
        draws the next. ``options["split"]`` takes another split for this once.
        """
        super().reset(seed=seed)
        request = self._sessions.request(TaskChoice.of(options), seed, self.np_random)
        before = self._now
        (self._now,) = self._sessions.open([request])
        self._action = None
        if before is not None:
            self._sessions.forget([before.session_id])
        return self._now.observation, info_of(self._now)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act. An action that the environment does not understand is a step, with ``info["valid_action"]`` false.

        Raises `EnvironmentServerError` for what is no action at all (see ``action_space``), and after the end.
        """
        if self._now is None:
            raise ResetNeeded("call reset before step: there is no episode yet")
        result = self._sessions.client.step(self._now.session_id, action, self._now.step_index)
        self._now, self._action = result, action
        return result.observation, result.reward, result.terminated, result.truncated, info_of(result)

    def render(self) -> str | None:
        """The last action and what came of it, for ``render_mode = "ansi"``."""
        if self.render_mode is None or self._now is None:
            return None
        return rendered(self._action, self._now)

    def close(self) -> None:
        """Delete the episode on the server and close the connections."""
        self._sessions.close([] if self._now is None else [self._now.session_id])
        self._now = None


def info_of(observation: Observation | StepResult) -> dict[str, Any]:
    """What gymnasium's ``info`` holds: the environment's own, and what the server tells beside the text."""
    return {
        **observation.info,
        "task_id": observation.task_id,
        "admissible_actions": observation.admissible_actions,
        "state_key": observation.state_key,
        "step_index": observation.step_index,
    }


def rendered(action: str | None, now: Observation) -> str:
    """A turn as text."""
    return now.observation if action is None else f"> {action}\n{now.observation}"
