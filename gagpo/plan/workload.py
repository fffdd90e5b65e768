"""What a recipe asks for in one training step, in counts."""

import random
from dataclasses import dataclass

from shared.recipe import OldLogprobs, PpoSettings, Recipe

_TURNS_SHARE = 2 / 3
"""Mean length of an episode as a share of its step limit, where nothing was measured: between a policy that is lost
(nearly all episodes run into the limit) and one that has learnt (half of it or less)."""
_CUT_SHARE = 0.4
"""Share of episodes that run into the limit, where nothing was measured."""
_COMPACT = (0.12, 0.37)
_OTHERS = (0.5, 0.4)
"""Mean prompt and answer as shares of their limits, where nothing was measured: for the template ``compact`` as the
small policy has them on ALFWorld, for others a guess."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One training step of a recipe; means are over all environments."""

    groups: int
    group_size: int
    concurrency: int
    max_staleness: int
    max_turns: int
    turns: float
    """Mean turns (steps) of an episode."""
    cut_share: float
    """Share of episodes that end at ``max_turns``."""
    prompt_tokens: float
    """Mean prompt of a turn."""
    answer_tokens: float
    """Mean number of tokens sampled in a turn."""
    whole_history: bool
    """Whether each prompt of an episode begins with the one before, so that prefixes are shared."""
    signal_share: float
    """Share of samples in groups that carry signal; the others are not trained on."""
    epochs: int
    old_logprobs: bool
    """Whether the trainer computes log π_old itself."""
    reference: bool
    """Whether there is a KL term, which takes log π_ref."""
    critic_epochs: int
    """Passes of a critic's update; 0 without a critic."""
    checkpoint_every: int
    measured: bool
    """Whether lengths and token counts come from a run."""

    @property
    def episodes(self) -> int:
        """Episodes in a training step."""
        return self.groups * self.group_size

    @property
    def samples(self) -> float:
        """Steps of all episodes: what generation and environments work through."""
        return self.episodes * self.turns

    @property
    def computed_prompt_tokens(self) -> float:
        """Mean prompt tokens of a turn that the prefix cache does not have.

        Where each prompt begins with the one before, a turn adds only what is new. Prompts then grow about linearly
        from nearly nothing to twice their mean over an episode's turns, so a turn adds twice the mean over the turns.
        """
        return self.prompt_tokens * self.computed_share

    @property
    def computed_share(self) -> float:
        """Share of the prompts' tokens that are computed where prefixes are shared, in generation and training."""
        return min(1.0, 2 / self.turns) if self.whole_history else 1.0

    @property
    def trained_tokens(self) -> float:
        """Prompt and action tokens of the samples that are trained on, in one epoch."""
        return self.samples * self.signal_share * (self.prompt_tokens + self.answer_tokens)

    @property
    def judged_tokens(self) -> float:
        """Prompt tokens that a critic sees, of all samples, in one pass."""
        return self.samples * self.prompt_tokens if self.critic_epochs else 0.0

    def episode_turns(self, rng: random.Random) -> list[int]:
        """A length for each episode: ``cut_share`` of them at the limit, the others spread evenly about their mean."""
        cut = round(self.cut_share * self.episodes)
        others = self.episodes - cut
        mean = max(1.0, (self.turns * self.episodes - cut * self.max_turns) / others) if others else 0.0
        most = min(self.max_turns, max(1, round(2 * mean - 1)))
        lengths = [self.max_turns] * cut + [
            1 + round((most - 1) * place / max(1, others - 1)) for place in range(others)
        ]
        rng.shuffle(lengths)
        return lengths


def workload_of(recipe: Recipe, turns: float | None = None) -> Workload:
    """What the recipe says, with assumptions for what only a run can tell; ``turns`` replaces the first of them."""
    total = sum(one.weight for one in recipe.environments)

    def mean(values: list[float]) -> float:
        weighted = zip(values, recipe.environments, strict=True)
        return sum(value * one.weight for value, one in weighted) / total

    max_turns = max(one.max_steps for one in recipe.environments)
    assumed = mean([_TURNS_SHARE * one.max_steps for one in recipe.environments])
    shares = [_COMPACT if one.prompt.template == "compact" else _OTHERS for one in recipe.environments]
    limits = list(zip(shares, recipe.environments, strict=True))
    return Workload(
        groups=recipe.rollout.groups_per_step,
        group_size=recipe.rollout.group_size,
        concurrency=recipe.rollout.concurrency,
        max_staleness=recipe.rollout.max_staleness,
        max_turns=max_turns,
        turns=min(float(max_turns), turns) if turns is not None else assumed,
        cut_share=_CUT_SHARE if turns is None else min(_CUT_SHARE, 0.5 * turns / max_turns),
        prompt_tokens=mean([share[0] * one.prompt.max_tokens for share, one in limits]),
        answer_tokens=max(1.0, mean([share[1] * one.sampling.max_tokens for share, one in limits])),
        whole_history=all(one.prompt.history_length >= one.max_steps for one in recipe.environments),
        signal_share=1.0,
        epochs=recipe.training.epochs,
        old_logprobs=recipe.training.old_logprobs is OldLogprobs.TRAINER,
        reference=recipe.algorithm.kl_coefficient > 0,
        critic_epochs=recipe.algorithm.critic.epochs if isinstance(recipe.algorithm, PpoSettings) else 0,
        checkpoint_every=recipe.training.checkpoint_every,
        measured=False,
    )
