"""What a warm-up was asked to do, what came of it, and the model card that says so."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from services.trainer.warmstart_fit import FitSettings
from shared.recipe import Recipe

CARD = """---
library_name: transformers
license: mit
pipeline_tag: text-generation
tags: [alfworld, gagpo]
---
# The small policy

A Llama of {parameters:,} weights that plays ALFWorld in text, with a word-level tokenizer of its own. It has
learnt what to do from an expert that searches, and then, by label smoothing, never to be quite sure of it: a place to
start reinforcement learning from, not a good player.

| | |
| --- | --- |
| held-out episodes won | {scores.success:.1%} of {evaluation_episodes} ({split}, at most {max_steps} steps) |
| sampling | temperature {temperature:g} |
| mean length | {scores.mean_steps:.1f} steps |
| actions not understood | {scores.invalid:.1%} |
| the same after the first lesson | {knowledge.success:.1%}, {knowledge.mean_steps:.1f} steps, {knowledge.invalid:.1%} |
| imitated | {samples:,} steps of {episodes:,} episodes, in {seconds:.0f} s |

Made by `gagpo warmstart` for the recipe `{recipe}` with these settings, on an env server whose {environment} data
has the digest `{data_digest}` (docs/small-policy.md has the commands):

```json
{settings}
```
"""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Expert episodes, and how the policy is trained on them."""

    episodes: int
    """Tasks of the train split, in order and over again."""
    slips: float
    """Share of the steps on which the expert does anything else; those are not imitated."""
    fit: FitSettings


@dataclass(frozen=True, slots=True)
class WarmstartSettings:
    """What the warm-up does. The defaults made configs/small-policy."""

    knowledge: Lesson = Lesson(8000, slips=0.15, fit=FitSettings(epochs=6))
    """The first lesson: what to do, from wherever a slip may have led."""
    doubt: Lesson = Lesson(500, slips=0.15, fit=FitSettings(epochs=1, learning_rate=1.5e-4, label_smoothing=0.1))
    """The second lesson: the same, but never to be quite sure. It leaves the knowledge, and makes the policy explore:
    many groups of episodes then have both outcomes, which is what it learns from."""
    min_success: float = 0.2
    """The least held-out success at the recipe's evaluation temperature with which a policy is handed over."""
    evaluation_episodes: int = 256
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """How a policy does on held-out tasks."""

    success: float
    """Share of episodes won."""
    mean_steps: float
    invalid: float
    """Share of steps that the environment did not understand."""


@dataclass(frozen=True, slots=True)
class WarmstartReport:
    """What came of it."""

    scores: Scores
    knowledge: Scores
    """After the first lesson."""
    samples: int
    """Imitated steps of both lessons."""
    seconds: float


def write_card(
    folder: Path,
    recipe: Recipe,
    settings: WarmstartSettings,
    report: WarmstartReport,
    parameters: int,
    data_digest: str,
) -> None:
    """Write the model card, ``README.md``, beside the weights."""
    environment = recipe.environments[0]
    text = CARD.format(
        parameters=parameters,
        scores=report.scores,
        knowledge=report.knowledge,
        evaluation_episodes=settings.evaluation_episodes,
        split=environment.eval_split,
        max_steps=environment.max_steps,
        temperature=recipe.evaluation.temperature,
        samples=report.samples,
        episodes=settings.knowledge.episodes + settings.doubt.episodes,
        seconds=report.seconds,
        recipe=recipe.name,
        environment=environment.name,
        data_digest=data_digest,
        settings=json.dumps(asdict(settings), indent=2),
    )
    (folder / "README.md").write_text(text, "utf-8")
