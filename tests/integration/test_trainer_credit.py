"""The credit record of a real training: its numbers are the algorithm's, its ratios the update's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from services.trainer.algorithms import make_algorithm
from services.trainer.rewards import Rewards
from shared.credit_record import CreditRecord, read_credit_record
from shared.recipe import Recipe, load_recipe
from shared.run_layout import RunFiles
from shared.trajectory import Episode, Group
from tests.policy_processes import tiny_model
from tests.training import WeightEndpoint, add_groups, metrics_of, start_trainer, training_group, write_recipe
from tests.trajectories import assert_same_group

pytestmark = pytest.mark.timeout(900)

START_S = 400.0
"""A process takes seconds to import what it needs, far more on a busy machine."""
STEPS, KEPT = 3, 2
LOST = 3
"""Index of the group that fails in every training step."""


def own_logprobs(group: Group) -> Group:
    """The same group as the untrained model would have sampled it."""
    model = tiny_model(0, tied=False)

    def of_episode(episode: Episode) -> Episode:
        steps = []
        for step in episode.steps:
            tokens = torch.from_numpy(np.concatenate([step.prompt_token_ids, step.token_ids]).astype(np.int64))
            with torch.no_grad():
                logprobs = model(input_ids=tokens.unsqueeze(0)).logits[0].log_softmax(-1)
            predicting = torch.arange(len(step.prompt_token_ids) - 1, len(tokens) - 1)
            steps.append(replace(step, logprobs=logprobs[predicting, tokens[predicting + 1]].numpy()))
        return replace(episode, steps=tuple(steps))

    return replace(group, episodes=tuple(of_episode(episode) for episode in group.episodes))


def groups_of(step: int) -> list[Group]:
    return [training_group(step, index, won=False if index == LOST else None) for index in range(4)]


def train(recipe: Path, groups: list[Group], run: Path, redis_url: str, endpoint: WeightEndpoint) -> Recipe:
    job = run.parent.name
    add_groups(redis_url, job, groups)
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    return load_recipe(recipe)


def assert_credit_is_the_algorithms(record: CreditRecord, groups: list[Group], recipe: Recipe) -> None:
    """Every number anew, from the groups that were put into Redis."""
    rewards = Rewards(recipe)
    credits = make_algorithm(recipe).credit([rewards.credit_group(group) for group in groups])
    for one, group, credit in zip(record.groups, groups, credits, strict=True):
        assert_same_group(one.group, group)
        assert one.credit.rewards.tolist() == rewards.of_steps(group)
        for name in ("returns", "values", "deltas", "raw", "advantages", "states"):
            np.testing.assert_array_equal(getattr(one.credit, name), getattr(credit, name), err_msg=name)
        # Pooled steps have one value: the mean of their returns.
        for state in set(one.credit.states.tolist()):
            here = one.credit.states == state
            assert one.credit.values[here] == pytest.approx(one.credit.returns[here].mean())


def test_a_training_keeps_the_credit_of_its_latest_steps(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    file = write_recipe(model_folder, f"tracking.credit_steps = {KEPT}", steps=STEPS)
    groups = {step: groups_of(step) for step in range(STEPS)}
    run = tmp_path / "run"
    recipe = train(file, [group for step in range(STEPS) for group in groups[step]], run, redis_url, endpoint)

    files, lines = RunFiles(run), metrics_of(run)
    assert files.credit_steps() == [1, 2]
    assert all(line["seconds_credit"] > 0 for line in lines)
    for step in files.credit_steps():
        record = read_credit_record(files.credit_record(step))
        assert (record.step, record.version, record.algorithm) == (step, step + 1, "gagpo")
        assert_credit_is_the_algorithms(record, groups[step], recipe)
        trained = [~np.isnan(one.credit.ratios) for one in record.groups]
        assert sum(int(seen.sum()) for seen in trained) == lines[step]["samples"] > 0
        assert not trained[LOST].any(), "nobody succeeded: the group was left out"
        clipped = np.concatenate([one.credit.clipped for one in record.groups])
        assert clipped.sum() == pytest.approx(lines[step]["clip_fraction"] * lines[step]["samples"])
        # Whole episodes are in one minibatch, and the first of the two meets the weights that are π_old.
        ratios = np.concatenate([one.credit.ratios[seen] for one, seen in zip(record.groups, trained, strict=True)])
        assert 0.2 < (ratios == 1.0).mean() < 0.8
        assert ratios[ratios != 1.0] == pytest.approx(1.0, abs=0.3)


def test_ratios_are_one_where_the_policy_server_told_the_truth_and_nothing_has_moved(
    redis_url: str, endpoint: WeightEndpoint, model_folder: Path, tmp_path: Path
) -> None:
    file = write_recipe(model_folder, "training.minibatches = 1", steps=1, old_logprobs="rollout")
    groups = [own_logprobs(group) for group in groups_of(0)]
    recipe = train(file, groups, tmp_path / "run", redis_url, endpoint)
    record = read_credit_record(RunFiles(tmp_path / "run").credit_record(0))
    assert_credit_is_the_algorithms(record, groups, recipe)
    for one in record.groups[:LOST]:
        assert one.credit.ratios == pytest.approx(1.0, abs=1e-5)
        assert not one.credit.clipped.any()
