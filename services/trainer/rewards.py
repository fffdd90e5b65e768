"""From trajectory groups to what credit assignment sees: rewards scaled, invalid actions penalised."""

from collections.abc import Sequence
from itertools import islice

from services.trainer.algorithms import CreditEpisode, CreditGroup
from shared.recipe import Recipe, RewardSettings
from shared.trajectory import Episode, EpisodeEnd, Group, Step


class Rewards:
    """What the steps of each environment are worth to the trainer."""

    def __init__(self, recipe: Recipe) -> None:
        """By the recipe's ``[reward]`` and what its environments have in its place."""
        self._by_environment = {environment.name: environment.reward for environment in recipe.environments}
        self._unit = recipe.reward.success

    def of(self, group: Group) -> RewardSettings:
        """The settings of a group's environment."""
        return self._by_environment[group.environment]

    def credit_group(self, group: Group, values: Sequence[float] = ()) -> CreditGroup:
        """A trajectory group as an algorithm takes it. States of different environments or tasks never meet.

        ``values`` are a critic's, one for each of the group's S steps, in units of a success.
        """
        settings, remaining = self.of(group), iter(values)
        episodes = [
            _credit_episode(
                episode, settings, [settings.success * value for value in islice(remaining, len(episode.steps))]
            )
            for episode in group.episodes
        ]
        return CreditGroup(f"{group.environment}\0{group.task_id}", episodes, settings.success / self._unit)

    def of_steps(self, group: Group) -> list[float]:
        """The shaped rewards of all steps of a group, episode by episode."""
        settings = self.of(group)
        return [shaped_reward(step, settings) for episode in group.episodes for step in episode.steps]

    def total(self, group: Group) -> float:
        """Sum of the shaped rewards of all steps of a group."""
        return sum(self.of_steps(group))


def shaped_reward(step: Step, settings: RewardSettings) -> float:
    """The environment's reward times ``success``, less the penalty where it did not understand the action."""
    penalty = 0.0 if step.valid_action else settings.invalid_action_penalty
    return settings.success * step.reward - penalty


def _credit_episode(episode: Episode, settings: RewardSettings, values: Sequence[float]) -> CreditEpisode:
    return CreditEpisode(
        rewards=[shaped_reward(step, settings) for step in episode.steps],
        state_keys=[step.state_key for step in episode.steps],
        final_state_key=episode.final_state_key,
        terminated=episode.end is EpisodeEnd.TERMINATED,
        observations=[step.observation for step in episode.steps],
        final_observation=episode.final_observation,
        true_states=[step.true_state for step in episode.steps],
        values=values,
    )
