"""Metrics of a training step, and where they go: ``metrics.jsonl``, TensorBoard, optionally W&B, and Redis events."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue
from torch.utils.tensorboard import SummaryWriter

from services.trainer.algorithms.diagnostics import SIZE_EDGES
from services.trainer.critic import CriticStats
from services.trainer.step_data import GroupStats, StepData
from services.trainer.update import UpdateStats
from shared.files import write_atomically
from shared.recipe import Recipe

STEP_EVENT = "step"
"""Kind of the Redis event that carries a training step's metrics."""

Metrics = dict[str, JsonValue]


@dataclass(slots=True)
class Phases:
    """Seconds that a training step spent in each phase."""

    wait: float = 0.0
    """For the step's groups."""
    advantages: float = 0.0
    old_logprobs: float = 0.0
    """log π_old and log π_ref."""
    update: float = 0.0
    critic: float = 0.0
    """The critic's values and its update."""
    push: float = 0.0
    checkpoint: float = 0.0
    total: float = 0.0
    """The whole step, from the end of the one before."""


def step_metrics(
    step: int,
    data: StepData,
    update: UpdateStats,
    critic: CriticStats | None,
    dropped: int,
    environment_steps: int,
    phases: Phases,
) -> Metrics:
    """One record; docs/gagpo.md says what each name means. Names are stable.

    ``environment_steps`` is the total since training began. What can be told of each environment stands a second time
    under ``environments``, by the environment's name.
    """
    tokens = data.tokens
    return {
        "step": step,
        "version": step + 1,
        **_group_metrics(data.stats),
        "groups_dropped": dropped,
        "environment_steps_total": environment_steps,
        "environments": {name: _group_metrics(stats) for name, stats in data.by_environment.items()},
        "samples": len(data.samples),
        "loss": update.loss,
        "kl_reference": update.kl_reference,
        "kl_old_new": update.kl_old,
        "clip_fraction": update.clip_fraction,
        "behaviour_weight": update.behaviour_weight,
        "behaviour_capped": update.behaviour_capped,
        "entropy": update.entropy,
        "grad_norm": update.grad_norm,
        "learning_rate": update.learning_rate,
        **_critic_metrics(critic),
        **_trust_region_metrics(update),
        "staleness_mean": tokens.staleness_mean,
        "staleness_max": tokens.staleness_max,
        "logprob_difference_mean": update.logprob_difference_mean,
        "logprob_difference_max": update.logprob_difference_max,
        "tokens_generated": tokens.tokens,
        "tokens_trained": update.trained_tokens,
        "tokens_per_s_generated": tokens.tokens / phases.total if phases.total else 0.0,
        "tokens_per_s_trained": update.trained_tokens / phases.update if phases.update else 0.0,
        **{f"seconds_{name}": seconds for name, seconds in asdict(phases).items()},
    }


def _critic_metrics(critic: CriticStats | None) -> Metrics:
    if critic is None:
        return {}
    return {
        "value_loss": critic.value_loss,
        "explained_variance": critic.explained_variance,
        "value_mean": critic.value_mean,
        "critic_grad_norm": critic.grad_norm,
    }


def _trust_region_metrics(update: UpdateStats) -> Metrics:
    found = update.trust_region
    if found is None:
        return {}
    return {
        "trpo_kl": found.kl,
        "trpo_step_fraction": found.step_fraction,
        "trpo_residual": found.residual,
        "trpo_halvings": found.halvings,
        "trpo_rejected": int(found.rejected),
    }


def _group_metrics(stats: GroupStats) -> Metrics:
    credit = stats.credit
    sizes = {_size_name(place): count for place, count in enumerate(credit.group_sizes)}
    return {
        "success_rate": stats.success_rate,
        "task_type_success": dict(stats.task_type_success),
        "mean_score": stats.mean_score,
        "mean_episode_length": stats.mean_episode_length,
        "mean_reward": stats.mean_reward,
        "mean_return": stats.mean_return,
        "invalid_action_share": stats.invalid_action_share,
        "truncated_share": stats.truncated_share,
        "episodes": stats.episodes,
        "environment_steps": stats.environment_steps,
        "groups": stats.groups,
        "groups_left_out": stats.left_out,
        "groups_all_fail": stats.all_fail_groups,
        "groups_all_success": stats.all_success_groups,
        "sibling_share": credit.sibling_share,
        "state_group_sizes": dict[str, JsonValue](sizes),
        "hidden_state_share": credit.hidden_state_share,
        "true_state_known": credit.true_state_known,
        "advantage_iqr": credit.advantage_iqr,
        "advantage_beyond_one": credit.advantage_beyond_one,
        "all_fail_weight": credit.all_fail_weight,
    }


def _size_name(place: int) -> str:
    first = SIZE_EDGES[place]
    if place + 1 == len(SIZE_EDGES):
        return f"{first}+"
    last = SIZE_EDGES[place + 1] - 1
    return str(first) if first == last else f"{first}-{last}"


class MetricsSink(Protocol):
    """Where metrics go."""

    def write(self, step: int, metrics: Metrics) -> None:
        """Take a training step's metrics."""

    def close(self) -> None:
        """Write out what is held back."""


class JsonLines:
    """``metrics.jsonl``: one line a training step, whatever happened to the trainer in between."""

    def __init__(self, file: Path, resume_at: int, last: Metrics) -> None:
        """Drop the lines from step ``resume_at`` on, and add ``last``, the step before, if its line is missing."""
        lines = [line for line in _lines(file) if int(str(line["step"])) < resume_at]
        if last and (not lines or lines[-1]["step"] != last["step"]):
            lines.append(last)
        write_atomically(file, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._stream = file.open("a")

    def write(self, step: int, metrics: Metrics) -> None:
        """Append a line; a reader sees it at once."""
        self._stream.write(json.dumps(metrics) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


class TensorBoard:
    """TensorBoard files in ``<run>/tensorboard``."""

    def __init__(self, folder: Path, resume_at: int) -> None:
        """Points at ``resume_at`` and later, of a trainer that was killed, are purged."""
        self._writer = SummaryWriter(str(folder), purge_step=resume_at or None)

    def write(self, step: int, metrics: Metrics) -> None:
        """Every number is a scalar, nested ones as ``name/key``."""
        for name, value in scalars(metrics).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


class WeightsAndBiases:
    """The same numbers on W&B, where the recipe asks for it."""

    def __init__(self, recipe: Recipe, run_id: str, folder: Path) -> None:
        """Go on with the run of that id, or begin it. Raises `ImportError` without the package."""
        wandb = importlib.import_module("wandb")  # optional: not among the dependencies
        self._run = wandb.init(
            project=recipe.tracking.wandb_project,
            id=run_id,
            resume="allow",
            dir=str(folder),
            config=recipe.model_dump(mode="json"),
        )

    def write(self, step: int, metrics: Metrics) -> None:
        """Log the scalars."""
        self._run.log(scalars(metrics), step=step)

    def close(self) -> None:
        """Finish the upload."""
        self._run.finish()


def scalars(metrics: Mapping[str, JsonValue]) -> dict[str, float]:
    """The numbers of a record, nested ones as ``name/key``."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, dict):
            found |= {f"{name}/{key}": number for key, number in scalars(value).items()}
        elif isinstance(value, int | float):
            found[name] = float(value)
    return found


def _lines(file: Path) -> Sequence[Metrics]:
    if not file.exists():
        return []
    # A line without its end is one that a killed trainer was still writing.
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
