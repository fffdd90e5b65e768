"""Many episodes at once: an env server's environment as a `gymnasium.vector.VectorEnv`, one request a step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from gagpo.envs.batching import batched
from gagpo.envs.environment import METADATA, info_of, rendered
from gagpo.envs.sessions import Sessions, TaskChoice
from gagpo.envs.spaces import Line, Prose
from shared.schemas.environment import MAX_GROUP, InfoValue, Observation, SessionStep, StepResult

Texts = tuple[str, ...]
Numbers = NDArray[np.float64]
Bools = NDArray[np.bool_]


class TextVectorEnv(VectorEnv[Texts, Sequence[str], NDArray[Any]]):
    """N episodes that are stepped together by ``POST /v1/steps``.

    It does what `gymnasium.vector.SyncVectorEnv` does with N `TextEnv`, from the same seeds, in all three modes of
    ``autoreset_mode``; only faster.
    """

    def __init__(
        self,
        environment: str,
        url: str | None = None,
        num_envs: int = 1,
        *,
        split: str | None = None,
        max_steps: int | None = None,
        state_key: str = "observation",
        options: Mapping[str, InfoValue] | None = None,
        patience_s: float = 60.0,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        """As `TextEnv`, for ``num_envs`` episodes.

        ``autoreset_mode`` says when an episode that ended makes place for a new one: at the next step (whose action is
        not used), at once (``info["final_obs"]`` is the end then), or when `reset` is called with ``reset_mask``.
        """
        if not 1 <= num_envs <= MAX_GROUP:
            raise ValueError(f"num_envs = {num_envs}: one request steps from 1 to {MAX_GROUP} episodes")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**METADATA, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = Prose(), Line()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._random = [np_random()[0] for _ in range(num_envs)]
        self._now: list[Observation | StepResult] = []
        self._actions: list[str | None] = [None] * num_envs
        self._sessions = Sessions(url, environment, split, max_steps, state_key, options, patience_s)

    @property
    def session_ids(self) -> list[str]:
        """The episodes' ids on the server; empty before the first reset."""
        return [now.session_id for now in self._now]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Texts, dict[str, Any]]:
        """Open new episodes; one ``seed`` gives sub-environment i the seed plus i.

        ``options`` are `TextEnv.reset`'s, and ``reset_mask``: which sub-environments it is for, all without it.
        """
        chosen = dict(options or {})
        mask = self._mask(chosen.pop("reset_mask", None))
        seeds = self._seeds(seed)
        places = np.flatnonzero(mask).tolist()
        for place in places:
            if (own := seeds[place]) is not None:
                self._random[place] = np_random(own)[0]
        opened = self._open(places, TaskChoice.of(chosen), seeds)
        before = self.session_ids
        self._now = [opened.get(place) or self._now[place] for place in range(self.num_envs)]
        for place in places:
            self._actions[place] = None
        self._sessions.forget(before[place] for place in places if before)
        return self._observations(), batched([info_of(now) if mask[i] else None for i, now in enumerate(self._now)])

    def step(self, actions: Sequence[str]) -> tuple[Texts, Numbers, Bools, Bools, dict[str, Any]]:
        """Act in every episode that goes on, with one request, and open new ones as ``autoreset_mode`` says.

        Raises `EnvironmentServerError`; the same call again goes on from there, and takes no step twice.
        """
        if not self._now:
            raise ResetNeeded("call reset before step: there are no episodes yet")
        if len(actions) != self.num_envs:
            raise ValueError(f"actions: {len(actions)} for {self.num_envs} sub-environments; give each one")
        ended = [place for place in range(self.num_envs) if _over(self._now[place])]
        if ended and self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(f"sub-environments {ended} have ended: reset them with options={{'reset_mask': …}}")
        results = self._take(actions, ended)
        finals: dict[int, Observation] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            ended = [place for place, result in results.items() if _over(result)]
            finals = {place: results[place] for place in ended}
        opened = self._open(ended, TaskChoice(), [None] * self.num_envs)

        self._sessions.forget(finals[place].session_id if finals else self._now[place].session_id for place in ended)
        self._now = [opened.get(place) or results[place] for place in range(self.num_envs)]
        self._actions = [None if place in opened else actions[place] for place in range(self.num_envs)]
        return (
            self._observations(),
            np.array([results[i].reward if i in results else 0.0 for i in range(self.num_envs)]),
            np.array([i in results and results[i].terminated for i in range(self.num_envs)]),
            np.array([i in results and results[i].truncated for i in range(self.num_envs)]),
            batched([self._info(now, finals.get(place)) for place, now in enumerate(self._now)]),
        )

    def render(self) -> tuple[str, ...] | None:
        """Each sub-environment's last action and what came of it, for ``render_mode = "ansi"``."""
        if self.render_mode is None:
            return None
        return tuple(rendered(*turn) for turn in zip(self._actions, self._now, strict=True))

    def close_extras(self) -> None:
        """Delete the episodes on the server and close the connections."""
        self._sessions.close(self.session_ids)
        self._now = []

    def _take(self, actions: Sequence[str], waiting: Sequence[int]) -> dict[int, StepResult]:
        """Step every sub-environment but the waiting ones."""
        going = [place for place in range(self.num_envs) if place not in waiting]
        steps = [
            SessionStep(
                session_id=self._now[place].session_id, action=actions[place], step_index=self._now[place].step_index
            )
            for place in going
        ]
        return dict(zip(going, self._sessions.client.steps(steps), strict=True))

    def _open(self, places: Sequence[int], choice: TaskChoice, seeds: Sequence[int | None]) -> dict[int, Observation]:
        requests = [self._sessions.request(choice, seeds[place], self._random[place]) for place in places]
        return dict(zip(places, self._sessions.open(requests), strict=True))

    def _observations(self) -> Texts:
        return tuple(now.observation for now in self._now)

    def _info(self, now: Observation, final: Observation | None) -> dict[str, Any]:
        ending = {} if final is None else {"final_obs": final.observation, "final_info": info_of(final)}
        return {**ending, **info_of(now)}

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        seeds = [seed + place for place in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} seeds for {self.num_envs} sub-environments; give each one")
        return seeds

    def _mask(self, given: object) -> Bools:
        if given is None:
            return np.ones(self.num_envs, np.bool_)
        mask = np.asarray(given)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"options.reset_mask: {given!r} should be {self.num_envs} times true or false, with a true among them"
            )
        if not self._now and not mask.all():
            raise ResetNeeded("options.reset_mask: the first reset is for all sub-environments")
        return mask


def _over(now: Observation | StepResult) -> bool:
    return isinstance(now, StepResult) and (now.terminated or now.truncated)
