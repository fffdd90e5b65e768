"""What the trainer writes down about a training step's credit, and what it keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.trainer.algorithms import make_algorithm
from services.trainer.credit_log import CreditLog, credit_record
from services.trainer.movement import SampleRatios
from services.trainer.rewards import Rewards
from services.trainer.step_data import StepData, assemble
from shared.credit_record import CreditRecord, read_credit_record
from shared.recipe import Recipe, ValuePool, load_recipe
from shared.run_layout import RunFiles
from shared.trajectory import Group
from tests.credit_records import make_record
from tests.training import training_group, write_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return load_recipe(write_recipe(tmp_path))


def data_of(recipe: Recipe, groups: list[Group]) -> StepData:
    return assemble(groups, make_algorithm(recipe), Rewards(recipe), 0)


def record_of(recipe: Recipe, groups: list[Group], data: StepData, ratios: SampleRatios) -> CreditRecord:
    return credit_record(4, "gagpo", groups, data, Rewards(recipe), ratios)


def counted(size: int) -> SampleRatios:
    """Ratios that tell the samples apart; every third one was clipped."""
    numbers = np.arange(size)
    return SampleRatios(1.0 + numbers / 1000, numbers % 3 == 0)


def without_tokens(group: Group, turn: int) -> Group:
    """The same where a step of the first episode has no sampled token: it has nothing to train on."""
    episode = group.episodes[0]
    none = episode.steps[turn].token_ids[:0]
    bare = replace(episode.steps[turn], token_ids=none, policy_versions=none, logprobs=none.astype(np.float32))
    steps = (*episode.steps[:turn], bare, *episode.steps[turn + 1 :])
    return replace(group, episodes=(replace(episode, steps=steps), *group.episodes[1:]))


def test_numbers_are_those_of_the_algorithm(recipe: Recipe) -> None:
    groups = [training_group(0, index) for index in range(3)]
    data = data_of(recipe, groups)
    record = record_of(recipe, groups, data, counted(len(data.samples)))
    assert (record.step, record.version, record.algorithm) == (4, 5, "gagpo")
    for group, credit, one in zip(groups, data.credits, record.groups, strict=True):
        assert one.group is group
        for name in ("returns", "values", "deltas", "raw", "advantages", "states"):
            np.testing.assert_array_equal(getattr(one.credit, name), getattr(credit, name))
        won = [10.0 * step.reward for episode in group.episodes for step in episode.steps]
        assert one.credit.rewards.tolist() == won


def test_each_ratio_goes_to_its_own_step_and_steps_left_out_have_none(recipe: Recipe) -> None:
    failed, mixed = training_group(0, 0, won=False), training_group(0, 1)
    groups = [failed, without_tokens(mixed, 1), training_group(0, 2)]
    data = data_of(recipe, groups)
    record = record_of(recipe, groups, data, counted(len(data.samples)))
    first, second, third = (one.credit for one in record.groups)
    assert np.isnan(first.ratios).all()
    assert np.flatnonzero(np.isnan(second.ratios)).tolist() == [1]
    assert not first.clipped.any()
    assert not second.clipped[1]
    seen = np.concatenate([second.ratios, third.ratios])
    assert seen[~np.isnan(seen)].tolist() == (1.0 + np.arange(len(data.samples)) / 1000).tolist()
    assert second.clipped[[0, 2, 3, 4]].tolist() == [True, False, False, True]


def test_while_the_policy_waits_for_its_critic_no_step_is_trained_on(recipe: Recipe) -> None:
    groups = [training_group(0, 1)]
    record = record_of(recipe, groups, data_of(recipe, groups).without_samples(), SampleRatios.none())
    assert np.isnan(record.groups[0].credit.ratios).all()


def test_states_agree_between_groups_where_the_pool_is_the_batch(recipe: Recipe) -> None:
    one, other = training_group(0, 1), replace(training_group(0, 5), task_id="maze-1")
    for pool, meet in ((ValuePool.GROUP, False), (ValuePool.BATCH, True)):
        pooled = recipe.model_copy(update={"algorithm": recipe.algorithm.model_copy(update={"value_pool": pool})})
        data = data_of(pooled, [one, other])
        record = record_of(pooled, [one, other], data, counted(len(data.samples)))
        here, there = (set(group.credit.states.tolist()) for group in record.groups)
        assert bool(here & there) is meet


def test_the_latest_steps_are_kept(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    log = CreditLog(files, keep=3)
    for step in range(6):
        log.write(make_record(step, groups=1))
    assert files.credit_steps() == [3, 4, 5]
    assert read_credit_record(files.credit_record(4)).step == 4


def test_zero_keeps_none(tmp_path: Path) -> None:
    log = CreditLog(RunFiles(tmp_path), keep=0)
    log.begin(0)
    log.write(make_record(0))
    assert not RunFiles(tmp_path).credit_folder.exists()


def test_a_start_drops_what_comes_anew_and_what_was_half_written(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    log = CreditLog(files, keep=9)
    for step in range(5):
        log.write(make_record(step, groups=1))
    half = files.credit_folder / ".step-000005.msgpack.zst.partial-1"
    half.write_bytes(b"half")
    CreditLog(files, keep=9).begin(3)
    assert files.credit_steps() == [0, 1, 2]
    assert not half.exists()
