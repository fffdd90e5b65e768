"""One episode: prompt, sample, step, until the environment or a limit ends it."""

from collections.abc import Sequence

import numpy as np

from services.orchestrator.environments import EnvironmentPool, Session
from services.orchestrator.policy import PolicyPool, Sampling
from shared.prompting import PromptBuilder, PromptTooLongError
from shared.schemas.environment import Observation
from shared.schemas.policy import GenerateResult
from shared.trajectory import Episode, EpisodeEnd, Step


class EpisodePlayer:
    """Plays episodes of one environment: with one policy, one way to prompt it, and one way to sample from it."""

    def __init__(
        self, environments: EnvironmentPool, policy: PolicyPool, prompts: PromptBuilder, sampling: Sampling
    ) -> None:
        """The pools have to be open while this is used."""
        self._environments = environments
        self._policy = policy
        self._prompts = prompts
        self._sampling = sampling

    async def play(self, session: Session, least_version: int, seeds: "TurnSeeds") -> Episode:
        """Play a fresh session to its end; every token is of ``least_version`` or newer.

        Raises `ServerProblemError` or `ServerUnavailableError` when it cannot be finished, and `PromptTooLongError`
        when not even the first prompt fits.
        """
        now: Observation = session.first
        prompts = self._prompts.start(now.observation, now.info)
        steps: list[Step] = []
        end: EpisodeEnd | None = None
        while end is None:
            try:
                prompt = prompts.render(now.observation, now.admissible_actions)
            except PromptTooLongError:
                if not steps:
                    raise  # an episode of no steps would teach nothing and hide a wrong setting
                end = EpisodeEnd.PROMPT_LIMIT
                break
            sampled = await self._policy.generate(prompt, self._sampling, least_version, seeds.at(len(steps)))
            action = self._prompts.action(sampled.token_ids)
            after = await self._environments.step(session, action, now.step_index)
            steps.append(_step(now, prompt, sampled, action, after.reward, _flag(after, "valid_action", True)))
            prompts.record(now.observation, action)
            if after.terminated:
                end = EpisodeEnd.TERMINATED
            elif after.truncated:
                end = EpisodeEnd.STEP_LIMIT
            now = after
        optimal = session.first.info.get("optimal_steps")
        return Episode(
            steps=tuple(steps),
            end=end,
            final_state_key=now.state_key,
            won=_flag(now, "won", False),
            score=_score(now, steps),
            optimal_steps=optimal if isinstance(optimal, int) and not isinstance(optimal, bool) else None,
            final_observation=now.observation,
        )


class TurnSeeds:
    """Sampling seeds of one episode's turns, so that a seed repeats a run up to the rounding of the policy server."""

    def __init__(self, seed: int, *place: int) -> None:
        """``place`` tells the episodes of one ``seed`` apart: numbers from 0."""
        self._key = (seed % 2**32, *place)

    def at(self, turn: int) -> int:
        """The seed of a turn, below 2^31."""
        return int(np.random.SeedSequence([*self._key, turn]).generate_state(1)[0] >> 1)


def _step(
    seen: Observation, prompt: list[int], sampled: GenerateResult, action: str, reward: float, valid: bool
) -> Step:
    return Step(
        observation=seen.observation,
        action=action,
        state_key=seen.state_key,
        prompt_token_ids=np.array(prompt, dtype=np.int32),
        token_ids=np.array(sampled.token_ids, dtype=np.int32),
        logprobs=np.array(sampled.logprobs, dtype=np.float32),
        policy_versions=np.array(sampled.policy_versions, dtype=np.int32),
        reward=reward,
        valid_action=valid,
        true_state=seen.true_state or "",
    )


def _score(end: Observation, steps: Sequence[Step]) -> float:
    score = end.info.get("score")
    if isinstance(score, int | float) and not isinstance(score, bool):
        return float(score)
    return sum(step.reward for step in steps)


def _flag(observation: Observation, name: str, default: bool) -> bool:
    value = observation.info.get(name, default)
    return value if isinstance(value, bool) else default
