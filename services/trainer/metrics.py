"""Metrics of a training step."""

from dataclasses import asdict, dataclass

from pydantic import JsonValue

from services.trainer.algorithms.diagnostics import SIZE_EDGES
from services.trainer.critic import CriticStats
from services.trainer.step_data import GroupStats, StepData
from services.trainer.update import UpdateStats

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
    credit: float = 0.0
    """Keeping the credit record."""
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
        **_optimum_metrics(stats),
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


def _optimum_metrics(stats: GroupStats) -> Metrics:
    return {} if stats.length_over_optimum is None else {"length_over_optimum": stats.length_over_optimum}


def _size_name(place: int) -> str:
    first = SIZE_EDGES[place]
    if place + 1 == len(SIZE_EDGES):
        return f"{first}+"
    last = SIZE_EDGES[place + 1] - 1
    return str(first) if first == last else f"{first}-{last}"
