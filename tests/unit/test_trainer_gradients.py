"""The gradient that the trainer computes, against the equations written out sample by sample, in float64."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from services.trainer.algorithms import LossKind
from services.trainer.batching import Samples
from services.trainer.objective import KnownLogprobs, Objective
from shared.recipe import RatioKind, Recipe
from tests.exact_model import exact_model, exact_recipe, exact_samples

RECIPE = exact_recipe()
SAMPLES = exact_samples()
EVERYTHING = np.arange(len(SAMPLES))
BELOW, WITHIN, ABOVE = -0.6, 0.02, 0.6
"""log ratios of a token, on either side of the clips at 0.8 and 1.3 and between them."""
CASES = list(itertools.product(RatioKind, (BELOW, WITHIN, ABOVE), (0.0, 0.3), (None, 1.5)))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def loss_kind(ratio: RatioKind, beta: float, cap: float | None) -> LossKind:
    return LossKind(ratio, 0.2, 0.3, beta, cap)


def plain_logprobs(model: GPT2LMHeadModel, samples: Samples, row: int) -> Tensor:
    """One sample by itself, all logits."""
    tokens, prompt = torch.from_numpy(samples.sequences[row]), int(samples.prompt_lengths[row])
    logprobs = model(input_ids=tokens.unsqueeze(0)).logits[0].log_softmax(-1)
    found: Tensor = logprobs[prompt - 1 : -1].gather(-1, tokens[prompt:].unsqueeze(-1)).squeeze(-1)
    return found


def known_logprobs(model: GPT2LMHeadModel, log_ratio: float, *, reference: bool) -> KnownLogprobs:
    """π_old such that every token's ratio is exp(log_ratio), give or take a little, and a made-up π_ref."""
    generator = torch.Generator().manual_seed(1)
    old = torch.zeros_like(SAMPLES.mask)
    with torch.no_grad():
        for row in range(len(SAMPLES)):
            found = plain_logprobs(model, SAMPLES, row)
            spread = 0.05 * torch.randn(len(found), generator=generator, dtype=torch.float64)
            old[row, : len(found)] = found - log_ratio + spread
    other = -2.0 + 0.5 * torch.randn(old.shape, generator=generator, dtype=torch.float64)
    return KnownLogprobs(old, old, other * SAMPLES.mask if reference else None)


def written_out(model: GPT2LMHeadModel, known: KnownLogprobs, kind: LossKind) -> Tensor:
    """Equations 6 and 7 of docs/gagpo.md with behaviour weights, one action after the other and branch by branch."""
    losses = []
    for row in range(len(SAMPLES)):
        new, advantage = plain_logprobs(model, SAMPLES, row), SAMPLES.advantages[row]
        count = len(new)
        old, rollout = known.old[row, :count], SAMPLES.rollout_logprobs[row, :count]
        shares = {
            RatioKind.ACTION: [(new.mean() - old.mean(), old.mean() - rollout.mean())],
            RatioKind.SEQUENCE: [(new.sum() - old.sum(), old.sum() - rollout.sum())],
            RatioKind.TOKEN: [(new[token] - old[token], old[token] - rollout[token]) for token in range(count)],
        }[kind.ratio]
        gains = []
        for log_ratio, behind in shares:
            ratio, limit = log_ratio.exp(), 1 + kind.clip_high if advantage > 0 else 1 - kind.clip_low
            beyond = ratio > limit if advantage > 0 else ratio < limit
            gain = limit * advantage if beyond else ratio * advantage
            if kind.behaviour_cap is not None:
                gain = gain * min(float(behind.exp()), kind.behaviour_cap)
            gains.append(gain)
        loss = -sum(gains) / len(gains)  # type: ignore[arg-type]
        if known.reference is not None:
            x = known.reference[row, :count] - new
            loss = loss + kind.kl_coefficient * (x.exp() - x - 1).mean()
        losses.append(loss)
    return torch.stack([torch.as_tensor(loss) for loss in losses]).mean()


def gradient_of(model: GPT2LMHeadModel) -> Tensor:
    """All gradients as one vector, taken from the model."""
    gradient = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in model.parameters()])
    model.zero_grad()
    return gradient


def trained_gradient(
    model: GPT2LMHeadModel, recipe: Recipe, kind: LossKind, known: KnownLogprobs, samples: Samples = SAMPLES
) -> Tensor:
    Objective(recipe, kind, model, None).gradients(samples, np.arange(len(samples)), known)
    return gradient_of(model)


@pytest.mark.parametrize(("ratio", "log_ratio", "beta", "cap"), CASES)
def test_the_gradient_is_that_of_the_equations(
    ratio: RatioKind, log_ratio: float, beta: float, cap: float | None
) -> None:
    model, kind = exact_model(0), loss_kind(ratio, beta, cap)
    known = known_logprobs(model, log_ratio, reference=beta > 0)
    found = trained_gradient(model, RECIPE, kind, known)
    torch.autograd.backward(written_out(model, known, kind))
    expected = gradient_of(model)
    assert float((found - expected).norm()) <= 1e-10 * float(expected.norm())
    assert bool(expected.any())


@pytest.mark.parametrize(("ratio", "log_ratio", "beta", "cap"), CASES)
def test_the_gradient_is_the_slope_of_the_loss(
    ratio: RatioKind, log_ratio: float, beta: float, cap: float | None
) -> None:
    model, kind = exact_model(0), loss_kind(ratio, beta, cap)
    known = known_logprobs(model, log_ratio, reference=beta > 0)
    objective = Objective(RECIPE, kind, model, None)
    gradient = trained_gradient(model, RECIPE, kind, known)
    generator = torch.Generator().manual_seed(2)
    direction = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in model.parameters()]
    size = 1e-5

    def move(length: float) -> None:
        with torch.no_grad():
            for parameter, part in zip(model.parameters(), direction, strict=True):
                parameter.add_(part, alpha=length)

    losses = []
    for length in (size, -2 * size):
        move(length)
        losses.append(float(objective.evaluate(SAMPLES, EVERYTHING, known).sums[0]) / len(SAMPLES))
    slope = (losses[0] - losses[1]) / (2 * size)
    expected = float(torch.dot(gradient, torch.cat([part.flatten() for part in direction])))
    assert slope == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("ratio", RatioKind)
def test_packing_padding_and_micro_batches_leave_the_gradient_alone(ratio: RatioKind) -> None:
    model, kind = exact_model(0), loss_kind(ratio, 0.3, 1.5)
    known = known_logprobs(model, WITHIN, reference=True)
    whole = trained_gradient(model, RECIPE, kind, known)
    (batch,) = Objective(RECIPE, kind, model, None).micro_batches(SAMPLES, EVERYTHING)
    assert len(batch.input_ids) == 3, "an episode's steps share a row"

    in_parts = trained_gradient(model, one_row_at_a_time(RECIPE), kind, known)
    assert float((in_parts - whole).norm()) <= 1e-12 * float(whole.norm())

    wide = replace(SAMPLES, mask=pad(SAMPLES.mask), rollout_logprobs=pad(SAMPLES.rollout_logprobs, -5.0))
    assert known.reference is not None
    wide_known = KnownLogprobs(pad(known.old, -3.0), pad(known.old, -3.0), pad(known.reference, -4.0))
    padded = trained_gradient(model, RECIPE, kind, wide_known, wide)
    assert float((padded - whole).norm()) <= 1e-12 * float(whole.norm())

    apart = torch.zeros_like(whole)
    objective = Objective(RECIPE, kind, model, None)
    for row in range(len(SAMPLES)):
        objective.gradients(SAMPLES, np.array([row]), known)  # its own row, and its own mean
        apart += gradient_of(model) / len(SAMPLES)
    assert float((apart - whole).norm()) <= 1e-12 * float(whole.norm())


def one_row_at_a_time(recipe: Recipe) -> Recipe:
    """With micro batches far below what a recipe may ask for."""
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"micro_batch_tokens": 1})})


def pad(values: Tensor, rubbish: float = 0.0) -> Tensor:
    """Three more tokens behind every action."""
    return torch.nn.functional.pad(values, (0, 3), value=rubbish)


@pytest.mark.parametrize("ratio", RatioKind)
def test_stale_groups_get_the_decoupled_objective(ratio: RatioKind) -> None:
    """π_rollout is an older policy; π_old, recomputed by the trainer, is where the clip is centred."""
    behaviour, old, new = exact_model(0), exact_model(0), exact_model(0)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for moved, scale in ((old, 0.03), (new, 0.03)):
            for parameter in moved.parameters():
                parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        sampled = replace(SAMPLES, rollout_logprobs=logprobs_under(behaviour))
    kind = LossKind(ratio, 0.2, 0.2, 0.0, behaviour_cap=100.0)
    proximal = logprobs_under(old)
    found = Objective(RECIPE, kind, new, None).evaluate(sampled, EVERYTHING, KnownLogprobs(proximal, proximal, None))

    total = 0.0
    for row in range(len(SAMPLES)):
        count, advantage = int(SAMPLES.mask[row].sum()), float(SAMPLES.advantages[row])
        by_policy = [logprobs_under(model)[row, :count] for model in (behaviour, old, new)]
        if ratio is RatioKind.ACTION:
            by_policy = [logprobs.mean().unsqueeze(0) for logprobs in by_policy]
        elif ratio is RatioKind.SEQUENCE:
            by_policy = [logprobs.sum().unsqueeze(0) for logprobs in by_policy]
        p_behaviour, p_old, p_new = (logprobs.exp() for logprobs in by_policy)
        # min(π_θ/π_behav Â, clip(π_θ/π_prox) π_prox/π_behav Â): Hilton et al. 2021, equation 4.
        clipped = (p_new / p_old).clamp(0.8, 1.2) * p_old / p_behaviour
        total -= float(torch.minimum(p_new / p_behaviour * advantage, clipped * advantage).mean())
    assert float(found.sums[0]) == pytest.approx(total, rel=1e-10)


def logprobs_under(model: GPT2LMHeadModel) -> Tensor:
    """Log-probabilities of the samples' actions, padded with 0."""
    found = torch.zeros_like(SAMPLES.mask)
    with torch.no_grad():
        for row in range(len(SAMPLES)):
            logprobs = plain_logprobs(model, SAMPLES, row)
            found[row, : len(logprobs)] = logprobs
    return found
