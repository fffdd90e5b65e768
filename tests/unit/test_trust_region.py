"""TRPO's parts against what they stand for, and its step against its promises."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from services.trainer.algorithms import make_algorithm
from services.trainer.batching import Samples, make_samples, micro_batches
from services.trainer.conjugate_gradient import conjugate_gradient
from services.trainer.distributed import World
from services.trainer.fisher import TokenDivergence, Weights
from services.trainer.lora import add_adapters
from services.trainer.metrics import Phases, step_metrics
from services.trainer.movement import TrustRegionStats
from services.trainer.optimizer_state import restore_optimizer, save_optimizer
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.trust_region import TrustRegionError
from services.trainer.update import Updater, UpdateStats
from shared.recipe import ModelSettings, Recipe, RecipeError
from shared.trajectory import Step
from tests.exact_model import VOCABULARY, exact_model, exact_recipe, exact_samples
from tests.policy_processes import tiny_model
from tests.training import training_group

TRPO = "algorithm.update = 'trpo'"
NO_KL = "algorithm.kl_coefficient = 0.0"
SAMPLES = exact_samples()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def divergence_of(
    model: Any, samples: Samples = SAMPLES, budget: int = 1000, temperature: float = 0.7
) -> TokenDivergence:
    passes = partial(micro_batches, samples, np.arange(len(samples)), budget)
    return TokenDivergence(model, temperature, lambda: iter(passes()), int(samples.mask.sum()))


def updater_of(recipe: Recipe, model: Any, reference: Any = None, world: World | None = None) -> Updater:
    return Updater(recipe, make_algorithm(recipe).loss, model, reference, world=world or World())


def flat(weights: Weights) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in weights.values()])


def random_direction(weights: Weights, seed: int) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(w.shape, generator=generator, dtype=w.dtype) for name, w in weights.items()}


def all_weights(model: Any) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def explicit_fisher(model: GPT2LMHeadModel) -> Tensor:
    """Σₐ p(a) ∇log p(a) ∇log p(a)ᵀ, mean over action tokens: one gradient for each word at each token."""
    parameters = list(model.parameters())
    slopes = []
    for row, tokens in enumerate(SAMPLES.sequences):
        logits = model(input_ids=torch.from_numpy(tokens).unsqueeze(0)).logits[0] / 0.7
        for logprobs in logits.log_softmax(-1)[int(SAMPLES.prompt_lengths[row]) - 1 : -1]:
            for word in range(VOCABULARY):
                found = torch.autograd.grad(logprobs[word], parameters, retain_graph=True, allow_unused=True)
                pairs = zip(found, parameters, strict=True)
                slope = torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
                slopes.append(slope * float(logprobs[word].detach().exp()) ** 0.5)
    rows = torch.stack(slopes)
    return rows.T @ rows / float(SAMPLES.mask.sum())


def test_fisher_products_are_those_of_the_explicit_matrix() -> None:
    model = exact_model(0)
    matrix = explicit_fisher(model)
    for budget in (1, 1000):
        divergence = divergence_of(model, budget=budget)
        for seed in range(2):
            direction = random_direction(divergence.weights(), seed)
            expected = matrix @ flat(direction)
            found = flat(divergence.fisher_product(direction))
            assert float((found - expected).norm()) <= 1e-10 * float(expected.norm())


def test_the_divergence_of_a_small_move_is_half_its_fisher_product() -> None:
    model = exact_model(0)
    divergence = divergence_of(model)
    weights = divergence.weights()
    old, direction = {name: w.detach().clone() for name, w in weights.items()}, random_direction(weights, 1)
    curvature = float(torch.dot(flat(direction), flat(divergence.fisher_product(direction))))
    assert divergence.kl_from(old) == 0.0
    with torch.no_grad():
        for name, weight in weights.items():
            weight.add_(direction[name], alpha=1e-4)
    assert divergence.kl_from(old) == pytest.approx(0.5e-8 * curvature, rel=1e-2)


def test_conjugate_gradient_solves_as_many_equations_as_it_has_iterations() -> None:
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(9, 6, generator=generator, dtype=torch.float64)
    matrix, b = half.T @ half, torch.randn(6, generator=generator, dtype=torch.float64)
    found = conjugate_gradient(lambda v: matrix @ v, b, damping=0.3, iterations=6)
    expected = torch.linalg.solve(matrix + 0.3 * torch.eye(6, dtype=torch.float64), b)
    assert torch.allclose(found.x, expected, atol=1e-9)
    assert torch.allclose(found.image, matrix @ expected, atol=1e-9)
    assert found.residual < 1e-8
    early = conjugate_gradient(lambda v: matrix @ v, b, damping=0.3, iterations=2)
    left = (b - matrix @ early.x - 0.3 * early.x).norm() / b.norm()
    assert early.residual == pytest.approx(float(left), rel=1e-9)
    assert early.residual > 1e-3


def test_conjugate_gradient_stops_where_there_is_nothing_to_go_on() -> None:
    b = torch.tensor([1.0, 2.0])
    nothing = conjugate_gradient(torch.zeros_like, b, damping=0.0, iterations=5)
    assert not nothing.x.any()
    assert nothing.residual == 1.0
    assert conjugate_gradient(lambda v: v, torch.zeros(2), damping=0.0, iterations=5).residual == 0.0


@pytest.mark.parametrize("max_kl", [1e-4, 0.01, 0.3])
def test_the_step_stays_within_its_bound_and_lowers_the_loss(max_kl: float) -> None:
    recipe = exact_recipe(TRPO, NO_KL, f"algorithm.trust_region.max_kl = {max_kl}", "sampling.temperature = 0.7")
    model = exact_model(0)
    updater = updater_of(recipe, model)
    old = {name: weight.detach().clone() for name, weight in divergence_of(model).weights().items()}
    stats = updater.update(SAMPLES, step=0)
    assert stats.trust_region is not None
    assert not stats.trust_region.rejected
    assert stats.trust_region.step_fraction == 0.5**stats.trust_region.halvings
    true_kl = divergence_of(model).kl_from(old)
    assert stats.trust_region.kl == pytest.approx(true_kl, rel=1e-9)
    assert max_kl / 20 < true_kl <= max_kl
    assert stats.learning_rate == stats.clip_fraction == 0.0
    assert stats.kl_old > 0
    # At the old weights every ratio is 1: the loss was minus the mean advantage.
    assert stats.loss == pytest.approx(-float(SAMPLES.advantages.mean()), rel=1e-9)
    assert surrogate_loss(model, old) < stats.loss
    # The ratios are those of the step that was taken.
    gained = float((stats.ratios.ratios * SAMPLES.advantages.numpy()).mean())
    assert gained == pytest.approx(-surrogate_loss(model, old), rel=1e-9)
    assert not stats.ratios.clipped.any()


def surrogate_loss(model: GPT2LMHeadModel, old: Weights) -> float:
    """Minus the mean of ρ Â, ρ of the action as a whole, sample by sample."""
    before = exact_model(0)
    before.load_state_dict({name.removeprefix("model."): weight for name, weight in old.items()}, strict=False)
    total = 0.0
    for row, tokens in enumerate(SAMPLES.sequences):
        ids, prompt = torch.from_numpy(tokens), int(SAMPLES.prompt_lengths[row])
        with torch.no_grad():
            new, was = (
                (m(input_ids=ids.unsqueeze(0)).logits[0] / 0.7)
                .log_softmax(-1)[prompt - 1 : -1]
                .gather(-1, ids[prompt:].unsqueeze(-1))
                for m in (model, before)
            )
        total -= float((new - was).mean().exp()) * float(SAMPLES.advantages[row])
    return total / len(SAMPLES)


def test_micro_batches_leave_the_step_alone() -> None:
    recipe = exact_recipe(TRPO)
    small = recipe.model_copy(update={"training": recipe.training.model_copy(update={"micro_batch_tokens": 1})})
    moved = []
    for one in (recipe, small):
        model, reference = exact_model(0), exact_model(1).requires_grad_(requires_grad=False)
        updater_of(one, model, reference).update(SAMPLES, step=0)
        moved.append(torch.cat([weight.flatten() for weight in all_weights(model)]))
    step = moved[0] - torch.cat([weight.flatten() for weight in all_weights(exact_model(0))])
    assert float((moved[0] - moved[1]).norm()) <= 1e-8 * float(step.norm())


def test_the_fisher_matrix_may_be_of_a_share_of_the_episodes_while_all_are_held_to_the_bound() -> None:
    samples = exact_samples(episodes=(2, 1, 3, 1, 2, 2, 1, 1))
    moved = []
    for share in (1.0, 0.25):
        model = exact_model(0)
        updater = updater_of(exact_recipe(TRPO, NO_KL, f"algorithm.trust_region.fisher_share = {share}"), model)
        stats = updater.update(samples, step=0)
        assert stats.trust_region is not None
        assert not stats.trust_region.rejected
        old = {f"model.{name}": weight for name, weight in exact_model(0).state_dict().items()}
        assert stats.trust_region.kl == pytest.approx(divergence_of(model, samples, temperature=1.0).kl_from(old))
        assert stats.trust_region.kl <= 0.01
        moved.append(torch.cat([weight.flatten() for weight in all_weights(model)]))
    assert not torch.equal(*moved)


def bandit(model: GPT2LMHeadModel, worth: Tensor, draws: int, seed: int) -> tuple[Samples, float]:
    """Draws of one word after one prompt, each with its worth above the mean as its advantage; and what to expect."""
    prompt = np.array([1, 4], np.int32)
    with torch.no_grad():
        odds = model(input_ids=torch.from_numpy(prompt.astype(np.int64)).unsqueeze(0)).logits[0, -1].softmax(-1)
    drawn = torch.multinomial(odds, draws, replacement=True, generator=torch.Generator().manual_seed(seed)).numpy()
    zero = np.zeros(1, np.float32)
    steps = [
        Step("", "", "", prompt, np.array([word], np.int32), zero, np.zeros(1, np.int32), 0.0, True) for word in drawn
    ]
    gained = worth[drawn].numpy()
    samples = make_samples(steps, list(range(draws)), gained - gained.mean())
    exact = replace(samples, advantages=samples.advantages.double(), mask=samples.mask.double())
    return replace(exact, rollout_logprobs=samples.rollout_logprobs.double()), float(odds @ worth)


def test_a_bandit_gets_better_with_every_step() -> None:
    worth = -((torch.arange(VOCABULARY, dtype=torch.float64) - 7.0) ** 2)
    model = exact_model(0)
    region = "algorithm.trust_region = {max_kl = 0.1, conjugate_gradient_steps = 4}"
    updater = updater_of(exact_recipe(TRPO, NO_KL, region), model)
    expected = []
    for step in range(8):
        samples, value = bandit(model, worth, draws=200, seed=step)
        expected.append(value)
        updater.update(samples, step)
    assert expected == sorted(expected)
    assert expected[-1] > 0.6 * expected[0]


def test_without_a_step_that_is_good_enough_the_weights_stay() -> None:
    model = exact_model(0)
    before = all_weights(model)
    # Whatever the advantages promise, any way to move costs more of the KL term to the reference, which is right here.
    recipe = exact_recipe(TRPO, "algorithm.kl_coefficient = 1e6", "algorithm.trust_region.line_search_steps = 2")
    stats = updater_of(recipe, model, reference=exact_model(0)).update(SAMPLES, step=0)
    assert stats.trust_region is not None
    assert stats.trust_region.rejected
    assert stats.trust_region.halvings == 2
    assert stats.trust_region.kl == stats.trust_region.step_fraction == 0.0
    assert stats.ratios.ratios.tolist() == [1.0] * len(SAMPLES)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_what_is_frozen_stays_and_adapters_move() -> None:
    model = tiny_model(0, tied=False)
    add_adapters(model, ModelSettings(path=Path("model"), lora_rank=2))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    samples = replace(
        exact_samples(), **{name: getattr(SAMPLES, name).float() for name in ("advantages", "rollout_logprobs", "mask")}
    )
    stats = updater_of(exact_recipe(TRPO), model, reference=model).update(samples, step=0)
    assert stats.trust_region is not None
    assert 0 < stats.trust_region.kl <= 0.01
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved
    assert all(".lora_" in name for name in moved)


def test_recomputed_activations_give_the_same_products() -> None:
    model = exact_model(0)
    direction = random_direction(divergence_of(model).weights(), 0)
    plain = flat(divergence_of(model).fisher_product(direction))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    assert torch.allclose(flat(divergence_of(model).fisher_product(direction)), plain, rtol=1e-12)


def test_a_checkpoint_goes_on_to_the_bit(tmp_path: Path) -> None:
    straight, resumed = (updater_of(exact_recipe(TRPO, NO_KL), exact_model(0)) for _ in range(2))
    straight.update(SAMPLES, step=0)
    save_optimizer(tmp_path, straight.policy, straight.optimizer)
    resumed.policy.load_state_dict(straight.policy.state_dict())
    restore_optimizer(tmp_path, resumed.policy, resumed.optimizer)
    for updater in (straight, resumed):
        updater.update(SAMPLES, step=1)
    pairs = zip(straight.policy.parameters(), resumed.policy.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_the_metrics_tell_of_the_trust_region_where_there_is_one() -> None:
    recipe = exact_recipe(TRPO)
    data = assemble([training_group(0, 0)], make_algorithm(recipe), Rewards(recipe), version=0)
    plain = step_metrics(0, data, UpdateStats(), None, 0, 0, Phases())
    found = TrustRegionStats(kl=0.008, step_fraction=0.5, residual=0.1, halvings=1, rejected=False)
    told = step_metrics(0, data, UpdateStats(trust_region=found), None, 0, 0, Phases())
    assert {name: told[name] for name in told.keys() - plain.keys()} == {
        "trpo_kl": 0.008,
        "trpo_step_fraction": 0.5,
        "trpo_residual": 0.1,
        "trpo_halvings": 1,
        "trpo_rejected": 0,
    }
    assert (plain["behaviour_weight"], plain["behaviour_capped"]) == (1.0, 0.0)


def test_sharded_weights_are_refused_with_the_remedy() -> None:
    world = World(rank=0, size=2, mesh=cast("Any", object()))
    with pytest.raises(TrustRegionError, match=r'sharded over 2 processes: train in one .* algorithm.update = "ppo"'):
        updater_of(exact_recipe(TRPO), exact_model(0), world=world)


@pytest.mark.parametrize(
    ("override", "message"),
    [("training.epochs = 2", "training.epochs = 2: .* set it to 1"), ("model.dtype = 'bfloat16'", "to .float32.")],
)
def test_a_recipe_that_trpo_cannot_serve_is_refused(override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        exact_recipe(TRPO, override)
