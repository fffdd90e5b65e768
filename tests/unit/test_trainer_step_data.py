"""From groups to samples and statistics: rewards of each environment, what carries signal, what is told of whom."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.trainer.algorithms import make_algorithm
from services.trainer.metrics import Metrics, Phases, step_metrics
from services.trainer.rewards import Rewards
from services.trainer.step_data import StepData, assemble
from services.trainer.update import UpdateStats
from shared.recipe import GigpoSettings, Recipe, load_recipe
from shared.scalars import scalars
from shared.trajectory import Group, Step
from tests.training import training_group, write_recipe

BEACH = """
[[environments]]
name = "beach"
[environments.reward]
success = 2.0
invalid_action_penalty = 0.0
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """The maze, and a beach where a success is worth a fifth."""
    file = write_recipe(tmp_path)
    file.write_text(file.read_text() + BEACH)
    return load_recipe(file)


def data_of(recipe: Recipe, groups: list[Group], version: int = 0) -> StepData:
    return assemble(groups, make_algorithm(recipe), Rewards(recipe), version)


def metrics_of(recipe: Recipe, groups: list[Group]) -> Metrics:
    return step_metrics(0, data_of(recipe, groups), UpdateStats(), None, 0, 0, Phases())


def at_the_beach(group: Group) -> Group:
    return replace(group, environment="beach", task_type="dig")


def test_groups_without_signal_are_left_out_and_counted(recipe: Recipe) -> None:
    failed, mixed = training_group(0, 0, won=False), training_group(0, 1)
    data = assemble([failed, mixed], make_algorithm(recipe), Rewards(recipe), 0)
    assert data.stats.left_out == 1
    assert len(data.samples) == sum(len(episode.steps) for episode in mixed.episodes)
    assert data.stats.credit.all_fail_weight == 0.0
    advantages = np.concatenate([c.advantages for c in data.credits[1:]])
    assert data.samples.advantages.tolist() == pytest.approx(advantages.tolist(), rel=1e-6)


def test_rewards_are_scaled_and_invalid_actions_penalised(recipe: Recipe) -> None:
    episode = training_group(0, 0).episodes[0]
    step = episode.steps[0]
    bad = Step("", "", "k", step.prompt_token_ids, step.token_ids, step.logprobs, step.policy_versions, 1.0, False)
    one = replace(episode, steps=(bad, step), won=True, score=0.5)
    group = Group(0, 0, "maze", "t", "walk", (one,))
    data = data_of(recipe, [group], version=3)
    assert data.credits[0].returns[0] == pytest.approx(9.9)
    stats = data.stats
    assert (stats.mean_reward, stats.mean_return) == (pytest.approx(9.9), pytest.approx(9.9))
    assert (stats.invalid_action_share, stats.mean_score) == (0.5, 0.5)
    assert (data.tokens.staleness_mean, data.tokens.staleness_max) == (3.0, 3)
    assert stats.task_type_success == {"walk": 1.0}
    (own,) = data_of(recipe, [at_the_beach(group)]).credits
    assert own.returns[0] == pytest.approx(2.0), "its own factor, and no penalty"


def test_an_environment_whose_success_is_worth_less_is_credited_alike(recipe: Recipe) -> None:
    """Advantages are normalised within the group, and the floor of the divisor goes with the reward's size."""
    mixed, lost = training_group(0, 1), training_group(0, 2, won=False)
    paid = replace(lost.episodes[0].steps[-1], reward=0.001)
    nearly_lost = replace(lost, episodes=(replace(lost.episodes[0], steps=(paid,)), *lost.episodes[1:]))
    for group in (mixed, nearly_lost):
        here, there = data_of(recipe, [group, at_the_beach(group)]).credits
        np.testing.assert_allclose(here.returns, 5 * there.returns)
        np.testing.assert_allclose(here.advantages, there.advantages)
        assert here.advantages.any()


def test_statistics_of_each_environment_are_those_of_its_groups_alone(recipe: Recipe) -> None:
    maze = [training_group(0, 0), training_group(0, 1, won=False)]
    beach = [at_the_beach(training_group(0, 2, won=True))]
    data = data_of(recipe, [maze[0], *beach, maze[1]])
    assert data.by_environment == {"maze": data_of(recipe, maze).stats, "beach": data_of(recipe, beach).stats}
    assert (data.stats.groups, data.stats.episodes, data.stats.all_success_groups) == (3, 12, 1)
    assert data.stats.left_out == data.by_environment["maze"].left_out == 1


def test_metrics_of_each_environment_have_tags_of_their_own(recipe: Recipe) -> None:
    groups = [training_group(0, 0, won=False), at_the_beach(training_group(0, 1, won=True))]
    tags = scalars(metrics_of(recipe, groups))
    assert tags["environments/maze/success_rate"] == 0.0
    assert tags["environments/beach/success_rate"] == 1.0
    assert tags["success_rate"] == 0.5
    assert tags["environments/beach/task_type_success/dig"] == 1.0
    for name in ("mean_score", "mean_return", "groups_all_fail", "advantage_iqr", "hidden_state_share"):
        assert {name, f"environments/maze/{name}", f"environments/beach/{name}"} <= tags.keys()


def test_length_over_the_optimum_is_of_won_episodes_whose_optimum_is_known(recipe: Recipe) -> None:
    base = training_group(0, 0).episodes[0]
    two, four = base.steps[:1] * 2, base.steps[:1] * 4
    episodes = [
        replace(base, steps=four, won=True, optimal_steps=2),
        replace(base, steps=two, won=True, optimal_steps=2),
        replace(base, steps=four, won=False, optimal_steps=1),
        replace(base, steps=four, won=True, optimal_steps=None),
    ]
    group = Group(0, 0, "maze", "t", "walk", tuple(episodes))
    assert metrics_of(recipe, [group])["length_over_optimum"] == pytest.approx((2.0 + 1.0) / 2)
    unknown = replace(group, episodes=tuple(episodes[2:]))
    assert "length_over_optimum" not in metrics_of(recipe, [unknown])


def test_observations_and_true_states_reach_the_credit(recipe: Recipe) -> None:
    """Two states look the same to who groups by key, and nearly the same to who groups by similarity."""
    episode = training_group(0, 0).episodes[0]
    here, there = (
        replace(episode, steps=(replace(episode.steps[0], state_key=key, observation=seen, true_state=truth),))
        for key, seen, truth in (("room", "a big old room", "with a lamp"), ("room", "a big old dark room", "without"))
    )
    group = Group(0, 0, "maze", "t", "walk", (here, there))
    assert data_of(recipe, [group]).stats.credit.hidden_state_share == 1.0
    for similarity, siblings in ((0.99, 0.0), (0.5, 1.0)):
        similar = recipe.model_copy(update={"algorithm": GigpoSettings(similarity=similarity)})
        found = data_of(similar, [group]).stats.credit
        assert (found.sibling_share, found.hidden_state_share) == (siblings, siblings)
        assert found.true_state_known == 1.0
