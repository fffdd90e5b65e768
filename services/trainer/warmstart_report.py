"""What a warm-up was asked to do, what came of it, and the model card that says so."""

import json
from dataclasses import asdict, dataclass, field
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

A Llama of {parameters:,} weights that plays ALFWorld in text, with a word-level tokenizer of its own. It imitates
an expert that searches and slips, so it wins now and then: a place to start reinforcement learning from, not a good
player.

| | |
| --- | --- |
| held-out episodes won | {success:.1%} of {evaluation_episodes} ({environment}, {split}, at most {max_steps} steps) |
| sampling | temperature {temperature:g} |
| mean length | {mean_steps:.1f} steps |
| actions not understood | {invalid:.1%} |
| imitated | {samples:,} steps of {episodes:,} expert episodes, of which {expert_success:.1%} were won |
| loss at the end | {loss:.3f} nats a token |

Made by `gagpo warmstart` with these settings, on the tasks that the recipe `{recipe}` generates with
`{generate}`:

```json
{settings}
```
"""


@dataclass(frozen=True, slots=True)
class WarmstartSettings:
    """What the warm-up does. The defaults made configs/small-policy."""

    episodes: int = 6000
    """Expert episodes to imitate; tasks of the train split, in order and over again."""
    noise: float = 0.25
    """Share of their steps on which the expert takes any admissible action instead of its own."""
    min_success: float = 0.2
    """The least held-out success at the recipe's evaluation temperature with which a policy is handed over."""
    evaluation_episodes: int = 256
    seed: int = 0
    fit: FitSettings = field(default_factory=FitSettings)


@dataclass(frozen=True, slots=True)
class WarmstartReport:
    """What came of it."""

    success: float
    """Share of held-out episodes won."""
    mean_steps: float
    invalid: float
    """Share of steps that the environment did not understand."""
    expert_success: float
    samples: int
    loss: float
    """Mean of the last hundred batches, nats a token."""
    seconds: float


def write_card(
    folder: Path, recipe: Recipe, settings: WarmstartSettings, report: WarmstartReport, parameters: int
) -> None:
    """Write the model card, ``README.md``, beside the weights."""
    environment = recipe.environments[0]
    generate = " ".join(["gagpo data generate", environment.name, *(environment.generate or [])])
    text = CARD.format(
        parameters=parameters,
        success=report.success,
        evaluation_episodes=settings.evaluation_episodes,
        environment=environment.name,
        split=environment.eval_split,
        max_steps=environment.max_steps,
        temperature=recipe.evaluation.temperature,
        mean_steps=report.mean_steps,
        invalid=report.invalid,
        samples=report.samples,
        episodes=settings.episodes,
        expert_success=report.expert_success,
        loss=report.loss,
        recipe=recipe.name,
        generate=generate,
        settings=json.dumps(asdict(settings), indent=2),
    )
    (folder / "README.md").write_text(text, "utf-8")
