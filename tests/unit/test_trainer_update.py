"""Samples, micro batches and the update: what must not change the result, and what must."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from services.trainer.algorithms import make_algorithm
from services.trainer.batching import Samples, make_samples, micro_batches, minibatch_plan
from services.trainer.checkpoints import CheckpointStore, TrainerState, read_state
from services.trainer.model import action_logprobs
from services.trainer.optimizer_state import restore_optimizer, save_optimizer
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.stopping import StopFlag, StoppedError
from services.trainer.update import Updater
from shared.recipe import OldLogprobs, Recipe, TrainingSettings, load_recipe
from shared.trajectory import Group, Step
from tests.policy_processes import changed, tiny_model
from tests.training import training_group, write_recipe

GROUPS = [training_group(0, index) for index in range(4)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost these tiny models more than they bring, and far more on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return load_recipe(write_recipe(tmp_path_factory.mktemp("recipe")))


def samples_of(recipe: Recipe, groups: list[Group] = GROUPS) -> Samples:
    return assemble(groups, make_algorithm(recipe), Rewards(recipe), 0).samples


def with_training(recipe: Recipe, **changes: object) -> Recipe:
    training = TrainingSettings.model_validate(recipe.training.model_dump() | changes)
    return recipe.model_copy(update={"training": training})


def updater_of(recipe: Recipe, stop: StopFlag | None = None) -> Updater:
    model, reference = tiny_model(0, tied=False), changed(tiny_model(0, tied=False), seed=1)
    flag = stop or StopFlag()
    return Updater(recipe, make_algorithm(recipe).loss, model, reference, flag.check)


def save(updater: Updater, store: CheckpointStore, state: TrainerState) -> Path:
    return store.save(updater.policy, lambda folder: save_optimizer(folder, updater.policy, updater.optimizer), state)


def plain_logprobs(model: LlamaForCausalLM, step: Step) -> torch.Tensor:
    """Log-probabilities of one action's tokens, the long way: one sequence, all logits."""
    tokens = torch.from_numpy(np.concatenate([step.prompt_token_ids, step.token_ids]).astype(np.int64))
    logits = model(input_ids=tokens.unsqueeze(0)).logits[0]
    at = torch.arange(len(step.prompt_token_ids), len(tokens))
    logprobs: torch.Tensor = logits[at - 1].log_softmax(-1)[torch.arange(len(at)), tokens[at]]
    return logprobs


@pytest.mark.parametrize("budget", [1, 300, 1 << 20])
def test_logprobs_are_those_of_one_sequence_at_a_time(recipe: Recipe, budget: int) -> None:
    model = tiny_model(0, tied=False)
    steps = [step for group in GROUPS for episode in group.episodes for step in episode.steps]
    samples = make_samples(steps, range(len(steps)), np.zeros(len(steps)))
    seen = []
    with torch.inference_mode():
        for batch in micro_batches(samples, np.arange(len(samples)), budget):
            assert batch.input_ids.numel() <= budget or len(batch.input_ids) == 1
            found = action_logprobs(model, batch, samples.mask.shape[1], temperature=1.0)
            for row, logprobs in zip(batch.samples.tolist(), found, strict=True):
                expected = plain_logprobs(model, steps[row])
                assert logprobs[: len(expected)] == pytest.approx(expected, abs=2e-5)
                seen.append(row)
    assert sorted(seen) == list(range(len(steps)))


def test_the_temperature_divides_the_logits(recipe: Recipe) -> None:
    model = tiny_model(0, tied=False)
    step = GROUPS[0].episodes[0].steps[0]
    (batch,) = micro_batches(make_samples([step], [0], np.zeros(1)), np.arange(1), 4096)
    tokens = torch.from_numpy(np.concatenate([step.prompt_token_ids, step.token_ids]).astype(np.int64))
    with torch.inference_mode():
        logits = model(input_ids=tokens.unsqueeze(0)).logits[0, len(step.prompt_token_ids) - 1 : -1]
        expected = (logits / 0.5).log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1)
        assert action_logprobs(model, batch, len(step.token_ids), 0.5)[0] == pytest.approx(expected, abs=2e-5)


def growing_episode(random: np.random.Generator, length: int) -> list[Step]:
    """Steps whose prompts each begin with the prompt and the action before, as with the whole history shown."""
    prompt, steps = random.integers(3, 300, 10), []
    for _ in range(length):
        action = random.integers(3, 300, int(random.integers(1, 4)))
        tokens = np.append(action, 2).astype(np.int32)  # the end token is sampled, and not shown in the next prompt
        zeros = np.zeros(len(tokens))
        made = Step(
            "", "", "", prompt.astype(np.int32), tokens, zeros.astype(np.float32), zeros.astype(np.int32), 0, True
        )
        steps.append(made)
        prompt = np.concatenate([prompt, action, random.integers(3, 300, 5)])
    return steps


def test_an_episode_whose_prompts_grow_is_one_row_with_the_same_logprobs() -> None:
    model, random = tiny_model(0, tied=False), np.random.default_rng(0)
    episodes = [growing_episode(random, length) for length in (4, 1, 6)]
    steps = [step for episode in episodes for step in episode]
    samples = make_samples(steps, range(len(steps)), np.zeros(len(steps)))
    (batch,) = micro_batches(samples, np.arange(len(steps)), 1 << 16)
    assert batch.input_ids.shape == (3, max(len(e[-1].prompt_token_ids) + len(e[-1].token_ids) - 1 for e in episodes))
    with torch.inference_mode():
        found = action_logprobs(model, batch, samples.mask.shape[1], 1.0)
        for place, sample in enumerate(batch.samples.tolist()):
            expected = plain_logprobs(model, steps[sample])
            assert found[place, : len(expected)] == pytest.approx(expected, abs=2e-5)
            assert not found[place, len(expected) :].any()
    assert sorted(batch.samples.tolist()) == list(range(len(steps)))


def test_a_changed_history_takes_a_row_of_its_own() -> None:
    steps = growing_episode(np.random.default_rng(0), 3)
    cut = steps[2].prompt_token_ids[5:]  # the oldest history was cut
    steps[2] = Step("", "", "", cut, steps[2].token_ids, steps[2].logprobs, steps[2].policy_versions, 0.0, True)
    (batch,) = micro_batches(make_samples(steps, range(3), np.zeros(3)), np.arange(3), 4096)
    assert len(batch.input_ids) == 2


def test_equal_samples_and_other_boundaries_share_a_row() -> None:
    step = GROUPS[0].episodes[0].steps[0]
    tokens = np.concatenate([step.prompt_token_ids, step.token_ids])

    def cut(count: int) -> Step:
        zeros = np.zeros(count)
        return Step(
            "", "", "", tokens[:-count], tokens[-count:], zeros.astype(np.float32), zeros.astype(np.int32), 0, True
        )

    (batch,) = micro_batches(make_samples([cut(1), cut(2), cut(1)], range(3), np.ones(3)), np.arange(3), 4096)
    assert len(batch.input_ids) == 1
    assert sorted(batch.samples.tolist()) == [0, 1, 2]


def test_minibatches_hold_whole_episodes_and_every_sample_once_an_epoch(recipe: Recipe) -> None:
    samples = samples_of(recipe)
    plan = minibatch_plan(samples.episodes, minibatches=3, epochs=2, seed=(recipe.seed, 0))
    assert len(plan) == 6
    for epoch in (plan[:3], plan[3:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(len(samples)))
        held = [set(samples.episodes[rows].tolist()) for rows in epoch]
        assert sum(len(episodes) for episodes in held) == len(set().union(*held))
    assert plan[0].tolist() != plan[3].tolist(), "each epoch shuffles anew"


def test_micro_batches_and_padding_do_not_change_the_update(recipe: Recipe) -> None:
    samples = samples_of(recipe)
    results = []
    for budget in (128, 512, 1 << 16):
        updater = updater_of(with_training(recipe, micro_batch_tokens=budget))
        stats = updater.update(samples, step=0)
        results.append((stats, [p.detach().clone() for p in updater.policy.parameters()]))
    first_stats, first_weights = results[0]
    for stats, weights in results[1:]:
        assert stats.loss == pytest.approx(first_stats.loss, abs=1e-6)
        assert stats.grad_norm == pytest.approx(first_stats.grad_norm, rel=1e-4)
        # AdamW's first steps divide a gradient by its own size, which turns rounding of tiny gradients into steps.
        for one, other in zip(weights, first_weights, strict=True):
            assert float((one - other).abs().mean()) < 1e-6


def gradients(recipe: Recipe, budget: int) -> list[torch.Tensor]:
    """Gradients of one minibatch with all samples."""
    updater = updater_of(with_training(recipe, micro_batch_tokens=budget, minibatches=1))
    updater.optimizer.step = lambda *_: None  # type: ignore[method-assign]
    updater.optimizer.zero_grad = lambda *_, **__: None  # type: ignore[method-assign]
    updater.update(samples_of(recipe), step=0)
    return [parameter.grad for parameter in updater.policy.parameters() if parameter.grad is not None]


def test_micro_batches_do_not_change_the_gradient_beyond_rounding(recipe: Recipe) -> None:
    for one, other in zip(gradients(recipe, 128), gradients(recipe, 1 << 16), strict=True):
        assert float((one - other).abs().max()) < 1e-6


def test_the_update_raises_the_good_and_lowers_the_bad(recipe: Recipe) -> None:
    recipe = with_training(recipe, minibatches=1)
    updater, samples = updater_of(recipe), samples_of(recipe)
    before, after = torch.zeros_like(samples.mask), torch.zeros_like(samples.mask)
    updater.logprobs(samples, np.arange(len(samples)), into=before)
    stats = updater.update(samples, step=5)
    updater.logprobs(samples, np.arange(len(samples)), into=after)
    moved = ((after - before) * samples.mask).sum(1) / samples.mask.sum(1)
    assert float((moved * samples.advantages).mean()) > 0
    assert stats.clip_fraction == stats.kl_old == 0.0, "one minibatch: the ratio is 1 throughout"
    assert stats.learning_rate == recipe.optimizer.learning_rate


def mean_logprobs(updater: Updater, samples: Samples) -> torch.Tensor:
    """Mean over an action's tokens of log π_θ. Shape (N,)."""
    found = torch.zeros_like(samples.mask)
    updater.logprobs(samples, np.arange(len(samples)), into=found)
    return (found * samples.mask).sum(1) / samples.mask.sum(1)


@pytest.mark.parametrize("budget", [128, 1 << 16])
def test_every_samples_ratio_is_that_of_its_last_pass(recipe: Recipe, budget: int) -> None:
    samples, settings = samples_of(recipe), {"minibatches": 1, "micro_batch_tokens": budget}
    first = updater_of(with_training(recipe, epochs=1, **settings))
    before = mean_logprobs(first, samples)
    met = first.update(samples, step=5).ratios
    assert met.ratios.tolist() == [1.0] * len(samples), "nothing had moved"
    assert not met.clipped.any()

    # The second epoch meets the weights that the first one left.
    moved = (mean_logprobs(first, samples) - before).exp()
    stats = updater_of(with_training(recipe, epochs=2, **settings)).update(samples, step=5)
    assert stats.ratios.ratios == pytest.approx(moved.numpy(), rel=1e-4)
    expected = torch.where(samples.advantages > 0, moved > 1.2, moved < 0.8)
    assert stats.ratios.clipped.tolist() == expected.tolist()
    assert stats.clip_fraction == pytest.approx(float(expected.float().mean()) / 2), "the mean over both epochs"


def test_later_minibatches_meet_weights_that_moved(recipe: Recipe) -> None:
    recipe, samples = with_training(recipe, minibatches=2), samples_of(recipe)
    ratios = updater_of(recipe).update(samples, step=5).ratios.ratios
    first, second = minibatch_plan(samples.episodes, 2, 1, (recipe.seed, 5))
    assert (ratios[first] == 1.0).all()
    assert (ratios[second] != 1.0).all()
    assert ratios[second] == pytest.approx(1.0, abs=0.3)


def test_old_logprobs_are_the_trainers_or_the_servers(recipe: Recipe) -> None:
    samples = samples_of(recipe)  # the server's numbers are made up, so that ratios to them are far from 1
    own = updater_of(with_training(recipe, minibatches=2)).update(samples, step=0)
    server = updater_of(with_training(recipe, minibatches=2, old_logprobs=OldLogprobs.ROLLOUT)).update(samples, step=0)
    assert own.kl_old < 0.05 < server.kl_old
    assert own.logprob_difference_mean == server.logprob_difference_mean > 0.1
    assert own.logprob_difference_max > own.logprob_difference_mean


def test_the_difference_to_the_server_is_zero_where_it_reports_the_same(recipe: Recipe) -> None:
    updater, samples = updater_of(recipe), samples_of(recipe)
    updater.logprobs(samples, np.arange(len(samples)), into=samples.rollout_logprobs)
    assert updater.update(samples, step=0).logprob_difference_max < 2e-5


def test_warmup_raises_the_learning_rate_over_training_steps(recipe: Recipe) -> None:
    updater, samples = updater_of(recipe), samples_of(recipe)
    rates = [updater.update(samples, step).learning_rate for step in range(3)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3])


def test_nothing_to_train_on_leaves_the_weights_alone(recipe: Recipe) -> None:
    updater = updater_of(recipe)
    before = [p.detach().clone() for p in updater.policy.parameters()]
    empty = samples_of(recipe, [training_group(0, 0, won=False)])
    assert len(empty) == 0
    stats = updater.update(empty, step=0)
    assert stats.trained_tokens == len(stats.ratios.ratios) == 0
    assert all(torch.equal(a, b) for a, b in zip(before, updater.policy.parameters(), strict=True))


def test_a_stop_is_heeded_between_micro_batches(recipe: Recipe) -> None:
    flag = StopFlag()
    updater = updater_of(recipe, flag)
    flag.set()
    with pytest.raises(StoppedError, match="SIGTERM"):
        updater.update(samples_of(recipe), step=0)


def test_a_checkpoint_brings_the_optimizer_back_to_the_bit(recipe: Recipe, tmp_path: Path) -> None:
    samples, straight = samples_of(recipe), updater_of(recipe)
    straight.update(samples, step=0)
    state = TrainerState(1, [(0, 0), (0, 1)], None, 2.5, {"step": 0})
    path = save(straight, CheckpointStore(tmp_path / "checkpoints", tmp_path, keep=2), state)
    assert read_state(path) == state

    resumed = updater_of(recipe)
    resumed.policy.load_state_dict(LlamaForCausalLM.from_pretrained(path).state_dict())
    restore_optimizer(path / "trainer", resumed.policy, resumed.optimizer)
    for updater in (straight, resumed):
        updater.update(samples, step=1)
    for one, other in zip(straight.policy.parameters(), resumed.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_only_the_newest_checkpoints_are_kept(recipe: Recipe, tmp_path: Path) -> None:
    store, updater = CheckpointStore(tmp_path / "c", tmp_path, keep=2), updater_of(recipe)
    for version in (1, 2, 3):
        save(updater, store, TrainerState(version, []))
    assert [path.name for path in store.all()] == ["step-000002", "step-000003"]
