"""How samples are dealt out over training processes, without any process."""

import numpy as np
import pytest
import torch

from services.trainer.algorithms.base import LossKind
from services.trainer.batching import Samples, make_samples, micro_batches
from services.trainer.losses import ActionLogprobs, surrogate
from services.trainer.model import action_logprobs
from shared.recipe import RatioKind
from shared.trajectory import Step
from tests.policy_processes import tiny_model
from tests.training import training_group

LOSS = LossKind(RatioKind.ACTION, clip_low=0.2, clip_high=0.2, kl_coefficient=0.0)
STEPS = [step for index in range(4) for episode in training_group(0, index).episodes for step in episode.steps]


def samples_of(steps: list[Step]) -> Samples:
    return make_samples(steps, range(len(steps)), np.random.default_rng(0).normal(size=len(steps)))


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("budget", [2048, 8192])
def test_tokens_are_dealt_evenly_and_padded_little(ranks: int, budget: int) -> None:
    random, zeros = np.random.default_rng(1), np.zeros(4)
    action = (zeros.astype(np.int32), zeros.astype(np.float32), zeros.astype(np.int32))
    prompts = [random.integers(3, 300, length).astype(np.int32) for length in random.integers(40, 160, 500)]
    samples = samples_of([Step("", "", "", prompt, *action, 0.0, True) for prompt in prompts])
    shares = [micro_batches(samples, np.arange(len(samples)), budget, rank, ranks) for rank in range(ranks)]
    padded = [sum(batch.input_ids.numel() for batch in share) for share in shares]
    assert all(batch.input_ids.numel() <= budget for share in shares for batch in share)
    assert max(padded) < 1.1 * sum(padded) / ranks
    assert sum(padded) < 1.1 * samples.tokens


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("budget", [128, 512, 1 << 16])
def test_processes_make_equally_many_passes_over_all_samples(ranks: int, budget: int) -> None:
    samples = samples_of(STEPS)
    shares = [micro_batches(samples, np.arange(len(samples)), budget, rank, ranks) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    seen = [sample for share in shares for batch in share for sample in batch.samples.tolist()]
    assert sorted(seen) == list(range(len(samples)))


def test_one_sample_for_two_processes_leaves_the_other_an_empty_pass() -> None:
    samples = samples_of(STEPS[:1])
    (first,), (second,) = (micro_batches(samples, np.arange(1), 512, rank, 2) for rank in range(2))
    assert first.samples.tolist() == [0]
    assert second.samples.tolist() == []


def test_an_empty_pass_has_a_gradient_of_zero_everywhere() -> None:
    model = tiny_model(0, tied=False)
    samples = samples_of(STEPS[:1])
    (empty,) = micro_batches(samples, np.arange(1), 512, rank=1, ranks=2)
    logprobs = action_logprobs(model, empty, samples.mask.shape[1], 1.0)
    none = torch.zeros(0, samples.mask.shape[1])
    found = surrogate(ActionLogprobs(logprobs, none, none, none), torch.zeros(0), LOSS)
    found.loss.backward()  # type: ignore[no-untyped-call]
    assert float(found.loss.detach()) == 0.0
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


def test_the_sum_over_processes_is_the_gradient_of_one() -> None:
    samples = samples_of(STEPS)

    def gradients(rank: int, ranks: int) -> list[torch.Tensor]:
        model = tiny_model(0, tied=False)
        for batch in micro_batches(samples, np.arange(len(samples)), 512, rank, ranks):
            at = batch.samples
            new = action_logprobs(model, batch, samples.mask.shape[1], 1.0)
            logprobs = ActionLogprobs(new, samples.rollout_logprobs[at], None, samples.mask[at])
            (surrogate(logprobs, samples.advantages[at], LOSS).loss / len(samples)).backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    one = gradients(0, 1)
    for whole, *parts in zip(one, gradients(0, 2), gradients(1, 2), strict=True):
        assert float((whole - sum(parts)).abs().max()) < 1e-6
