"""What a warm-up was asked to do, what came of it, and the model card that says so."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from services.trainer.warmstart_plans import WarmstartSettings
from shared.recipe import Recipe

CARD = """---
library_name: transformers
license: mit
pipeline_tag: text-generation
tags: [{environment}, gagpo]
---
# The small policy

A Llama of {parameters:,} weights that plays {title} in text, with a word-level tokenizer of its own. It has
{story}: a place to start reinforcement learning from, not a good player.

| | |
| --- | --- |
| held-out episodes won | {scores.success:.1%} of {evaluation_episodes} ({split}, at most {max_steps} steps) |
| mean reward | {scores.reward:.3f} |
| sampling | temperature {temperature:g} |
| mean length | {scores.mean_steps:.1f} steps |
| actions not understood | {scores.invalid:.1%} |
| all that after the first lesson | {before} |
| imitated | {samples:,} steps of {episodes:,} episodes, in {seconds:.0f} s |

Made by `gagpo warmstart` for the recipe `{recipe}` with these settings, on an env server whose {environment} data
has the digest `{data_digest}` (docs/small-policy.md has the commands):

```json
{settings}
```
"""


@dataclass(frozen=True, slots=True)
class Scores:
    """How a policy does on held-out tasks."""

    success: float
    """Share of episodes won."""
    reward: float
    """Mean of what an episode's rewards come to, as the environment gives them."""
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
    """Imitated steps of all lessons."""
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
    environment, known = recipe.environments[0], report.knowledge
    text = CARD.format(
        parameters=parameters,
        title=settings.title,
        story=settings.story,
        scores=report.scores,
        before=f"{known.success:.1%}, {known.reward:.3f}, {known.mean_steps:.1f} steps, {known.invalid:.1%}",
        evaluation_episodes=settings.evaluation_episodes,
        split=environment.eval_split,
        max_steps=environment.max_steps,
        temperature=recipe.evaluation.temperature,
        samples=report.samples,
        episodes=settings.knowledge.episodes + (settings.doubt.episodes if settings.doubt else 0),
        seconds=report.seconds,
        recipe=recipe.name,
        environment=environment.name,
        data_digest=data_digest,
        settings=json.dumps(asdict(settings), indent=2),
    )
    (folder / "README.md").write_text(text, "utf-8")
