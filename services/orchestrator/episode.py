"""One episode of the policy servers: prompt, sample, step, until the environment or a limit ends it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from services.orchestrator.environments import EnvironmentPool, Session
from services.orchestrator.policy import PolicyPool, Sampling
from services.orchestrator.turns import PlayedEpisode, Turn, play_turns
from shared.prompting import EpisodePrompts, PromptBuilder
from shared.schemas.environment import Observation
from shared.schemas.policy import GenerateResult
from shared.trajectory import Episode, Step


class EpisodePlayer:
    """Plays episodes of one environment: with one policy, one way to prompt it, and one way to sample from it."""

    def __init__(
        self, environments: EnvironmentPool, policy: PolicyPool, prompts: PromptBuilder, sampling: Sampling
    ) -> None:
        """The pools have to be open while this is used."""
        self._environments = environments
        self._sampler = Sampler(policy, prompts, sampling)

    async def play(
        self,
        session: Session,
        least_version: int,
        seeds: "TurnSeeds",
        on_turn: "Callable[[Turn[SampledMove]], None]",
    ) -> Episode:
        """Play a fresh session to its end, and tell ``on_turn`` of each turn; tokens are of ``least_version`` or newer.

        Raises `ServerProblemError` or `ServerUnavailableError` when it cannot be finished, and `PromptTooLongError`
        when not even the first prompt fits.
        """
        actor = self._sampler.start(session.first, least_version, seeds)
        return _episode(await play_turns(self._environments, session, actor, on_turn))

    def written(self, move: "SampledMove") -> str:
        """All that the policy wrote for a move."""
        return self._sampler.prompts.answer_text(move.sampled.token_ids)


class TurnSeeds:
    """Sampling seeds of one episode's turns, so that a seed repeats a run up to the rounding of the policy server."""

    def __init__(self, seed: int, *place: int) -> None:
        """``place`` tells the episodes of one ``seed`` apart: numbers from 0."""
        self._key = (seed % 2**32, *place)

    def at(self, turn: int) -> int:
        """The seed of a turn, below 2^31."""
        return int(np.random.SeedSequence([*self._key, turn]).generate_state(1)[0] >> 1)


@dataclass(frozen=True, slots=True)
class SampledMove:
    """An action that a policy server sampled."""

    action: str
    prompt: Sequence[int]
    """Token ids."""
    sampled: GenerateResult


@dataclass(frozen=True, slots=True)
class Sampler:
    """How a policy is asked for the actions of one environment."""

    policy: PolicyPool
    prompts: PromptBuilder
    sampling: Sampling

    def start(self, first: Observation, least_version: int, seeds: TurnSeeds) -> "SamplingActor":
        """Who acts in an episode that begins with ``first``."""
        return SamplingActor(self, self.prompts.start(first.observation, first.info), least_version, seeds)


@dataclass(frozen=True, slots=True)
class SamplingActor:
    """A policy in one episode."""

    sampler: Sampler
    prompts: EpisodePrompts[list[int]]
    least_version: int
    seeds: TurnSeeds

    async def act(self, now: Observation, turn: int) -> SampledMove:
        """The move of a turn. Raises what `PolicyPool.generate` raises, and `PromptTooLongError`."""
        how = self.sampler
        prompt = self.prompts.render(now.observation, now.admissible_actions)
        sampled = await how.policy.generate(prompt, how.sampling, self.least_version, self.seeds.at(turn))
        action = how.prompts.action(sampled.token_ids)
        self.prompts.record(now.observation, action)
        return SampledMove(action, prompt, sampled)


def _episode(played: PlayedEpisode[SampledMove]) -> Episode:
    return Episode(
        steps=tuple(map(_step, played.turns)),
        end=played.end,
        final_state_key=played.last.state_key,
        won=played.won,
        score=played.score,
        optimal_steps=played.optimal_steps,
        final_observation=played.last.observation,
    )


def _step(turn: Turn[SampledMove]) -> Step:
    seen, sampled = turn.seen, turn.move.sampled
    return Step(
        observation=seen.observation,
        action=turn.move.action,
        state_key=seen.state_key,
        prompt_token_ids=np.array(turn.move.prompt, dtype=np.int32),
        token_ids=np.array(sampled.token_ids, dtype=np.int32),
        logprobs=np.array(sampled.logprobs, dtype=np.float32),
        policy_versions=np.array(sampled.policy_versions, dtype=np.int32),
        reward=turn.after.reward,
        valid_action=turn.valid,
        true_state=seen.true_state or "",
    )
