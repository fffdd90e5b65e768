"""Who can be evaluated: a served model and the baselines; any endpoint is in the module of that name."""

import random
from dataclasses import dataclass
from typing import Protocol

from services.orchestrator.episode import TurnSeeds
from services.orchestrator.policy import PolicyPool, Sampling
from services.orchestrator.turns import Actor
from shared.prompting import EMPTY_ACTION, ActionFormat, EpisodePrompts, PromptBuilder, parse_action, task_text
from shared.schemas.environment import Observation

_BLANK = "<query>"
"""Stands in an admissible action for words of one's own."""


@dataclass(frozen=True, slots=True)
class EvaluatedMove:
    """What a policy decided in one turn."""

    action: str
    answer: str | None = None
    """All that it said, where that is more than the action."""
    tokens: int = 0
    prompt_tokens: int = 0
    versions: tuple[int, ...] = ()
    """The lowest and the highest policy version that sampled a token; empty for a policy without versions."""


class Policy(Protocol):
    """Somebody who plays one environment, any number of episodes at once."""

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """A new episode, from its first observation."""
        ...


class SampledPolicy:
    """A model behind policy servers, prompted and sampled as in training."""

    def __init__(self, pool: PolicyPool, prompts: PromptBuilder, sampling: Sampling) -> None:
        """The pool has to be open while this is used."""
        self._pool = pool
        self._prompts = prompts
        self._sampling = sampling

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """See `Policy`."""
        return _SampledEpisode(self, self._prompts.start(first.observation, first.info), seeds)

    async def sample(self, prompt: list[int], seed: int) -> EvaluatedMove:
        """One move. Raises what `PolicyPool.generate` raises."""
        sampled = await self._pool.generate(prompt, self._sampling, 0, seed)
        action, answer = self._prompts.action(sampled.token_ids), self._prompts.answer_text(sampled.token_ids)
        return EvaluatedMove(
            action=action,
            answer=None if answer == action else answer,
            tokens=len(sampled.token_ids),
            prompt_tokens=len(prompt),
            versions=(min(sampled.policy_versions), max(sampled.policy_versions)),
        )


@dataclass(frozen=True, slots=True)
class _SampledEpisode:
    policy: SampledPolicy
    prompts: EpisodePrompts[list[int]]
    seeds: TurnSeeds

    async def act(self, now: Observation, turn: int) -> EvaluatedMove:
        prompt = self.prompts.render(now.observation, now.admissible_actions)
        move = await self.policy.sample(prompt, self.seeds.at(turn))
        self.prompts.record(now.observation, move.action)
        return move


class UniformPolicy:
    """Any admissible action with equal chances; for ``<query>`` it takes a run of the task's own words."""

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """See `Policy`."""
        return _UniformEpisode(task_text(first.observation, first.info).split(), seeds)


@dataclass(frozen=True, slots=True)
class _UniformEpisode:
    words: list[str]
    seeds: TurnSeeds

    async def act(self, now: Observation, turn: int) -> EvaluatedMove:
        chance = random.Random(self.seeds.at(turn))
        action = chance.choice(now.admissible_actions or [EMPTY_ACTION])
        if _BLANK in action and self.words:
            action = action.replace(_BLANK, self._query(chance))
        return EvaluatedMove(parse_action(action, ActionFormat.WHOLE))

    def _query(self, chance: random.Random) -> str:
        start = chance.randrange(len(self.words))
        return " ".join(self.words[start : chance.randint(start + 1, len(self.words))])


class ExpertFollower:
    """The environment's own expert, which sessions with the option ``expert`` tell of in ``info.expert_action``."""

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """See `Policy`."""
        return self

    async def act(self, now: Observation, turn: int) -> EvaluatedMove | None:
        """What the expert would do; None where it has nothing to propose."""
        action = now.info.get("expert_action")
        return EvaluatedMove(action) if isinstance(action, str) else None
