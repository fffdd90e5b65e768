"""From trajectory groups to what credit assignment sees: rewards scaled, invalid actions penalised."""

from services.trainer.algorithms import CreditEpisode, CreditGroup
from shared.recipe import RewardSettings
from shared.trajectory import Episode, EpisodeEnd, Group, Step


def shaped_reward(step: Step, settings: RewardSettings) -> float:
    """The environment's reward times ``success``, less the penalty where it did not understand the action."""
    penalty = 0.0 if step.valid_action else settings.invalid_action_penalty
    return settings.success * step.reward - penalty


def credit_group(group: Group, settings: RewardSettings) -> CreditGroup:
    """A trajectory group as an algorithm takes it. States of different environments or tasks never meet."""
    episodes = [_credit_episode(episode, settings) for episode in group.episodes]
    return CreditGroup(f"{group.environment}\0{group.task_id}", episodes)


def _credit_episode(episode: Episode, settings: RewardSettings) -> CreditEpisode:
    return CreditEpisode(
        rewards=[shaped_reward(step, settings) for step in episode.steps],
        state_keys=[step.state_key for step in episode.steps],
        final_state_key=episode.final_state_key,
        terminated=episode.end is EpisodeEnd.TERMINATED,
    )
