"""Who can be evaluated: a served model and the baselines; any endpoint is in the module of that name."""

import random
from dataclasses import dataclass
from typing import Protocol

from services.orchestrator.episode import Sampler, SamplingActor, TurnSeeds
from services.orchestrator.turns import Actor
from shared.prompting import EMPTY_ACTION, ActionFormat, PromptBuilder, parse_action, task_text
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

    def __init__(self, sampler: Sampler) -> None:
        """Its policy pool has to be open while this is used."""
        self._sampler = sampler

    def start(self, first: Observation, seeds: TurnSeeds) -> Actor[EvaluatedMove]:
        """See `Policy`."""
        return _SampledEpisode(self._sampler.start(first, 0, seeds), self._sampler.prompts)


@dataclass(frozen=True, slots=True)
class _SampledEpisode:
    actor: SamplingActor
    prompts: PromptBuilder

    async def act(self, now: Observation, turn: int) -> EvaluatedMove:
        move = await self.actor.act(now, turn)
        sampled, answer = move.sampled, self.prompts.answer_text(move.sampled.token_ids)
        return EvaluatedMove(
            action=move.action,
            answer=None if answer == move.action else answer,
            tokens=len(sampled.token_ids),
            prompt_tokens=len(move.prompt),
            versions=(min(sampled.policy_versions), max(sampled.policy_versions)),
        )


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
