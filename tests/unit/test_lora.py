"""LoRA adapters: what is trained, what leaves the trainer, and what a job may go on with."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from services.policy_server.checkpoint import read_shapes
from services.trainer.algorithms import make_algorithm
from services.trainer.batching import MicroBatch, Samples, micro_batches
from services.trainer.checkpoints import CheckpointStore, TrainerState
from services.trainer.critic import load_critic
from services.trainer.distributed import ALONE
from services.trainer.learner import Learner
from services.trainer.lora import AdapterError, adapters_off, merged_weights, save_model
from services.trainer.losses import ActionLogprobs, surrogate
from services.trainer.model import ModelError, action_logprobs, load_policy
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.stopping import StopFlag
from shared.recipe import ModelSettings, PpoSettings, Recipe, RecipeError, load_recipe
from shared.trajectory import Group
from shared.weights_digest import digest_of_folder
from tests.policy_processes import VOCABULARY, changed, tiny_model, write_tiny_model
from tests.training import training_group, write_recipe

GROUPS = [training_group(0, index) for index in range(4)]
IDS = torch.arange(3, 43).unsqueeze(0)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost these tiny models more than they bring, and far more on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, its output layer tied to the embedding."""
    return write_tiny_model(tmp_path_factory.mktemp("base") / "model", tied=True)


@pytest.fixture(scope="module", params=["untied", "tied"])
def either_base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of each kind."""
    return write_tiny_model(tmp_path_factory.mktemp("base") / "model", tied=request.param == "tied")


@pytest.fixture
def recipe(base: Path) -> Recipe:
    return recipe_of(base)


def recipe_of(base: Path, *overrides: str) -> Recipe:
    return load_recipe(write_recipe(base.parent), ["model.lora_rank = 4", *overrides])


def learner_of(recipe: Recipe, checkpoint: Path | None = None) -> Learner:
    return Learner(recipe, checkpoint, ALONE, StopFlag())


def samples_of(recipe: Recipe, groups: Sequence[Group] = GROUPS) -> Samples:
    return assemble(list(groups), make_algorithm(recipe), Rewards(recipe), 0).samples


def only_batch(samples: Samples) -> MicroBatch:
    (batch,) = micro_batches(samples, np.arange(len(samples)), 1 << 20)
    return batch


def with_moved_adapters(settings: ModelSettings, scale: float = 0.1) -> PreTrainedModel:
    """A policy whose adapters have been trained, as it were: its B is no longer 0."""
    torch.manual_seed(5)
    policy = load_policy(settings)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, scale)
    return policy


def save(learner: Learner, folder: Path, version: int) -> Path:
    store = CheckpointStore(folder, tokenizer_from=folder, keep=9)
    return store.save(learner.whole(), learner.save_optimizer, TrainerState(version, []))


def weights(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_only_adapters_change(learner: Learner, samples: Samples) -> set[str]:
    """Names of what an update changed."""
    before = weights(learner.whole())
    learner.update(samples, 0)
    moved = {name for name, tensor in learner.whole().state_dict().items() if not torch.equal(before[name], tensor)}
    assert moved
    assert all(".lora_" in name for name in moved)
    return moved


def test_an_update_changes_all_adapters_and_nothing_else(recipe: Recipe) -> None:
    # Two layers of seven linear ones, each with A and B.
    assert len(assert_only_adapters_change(learner_of(recipe), samples_of(recipe))) == 2 * 7 * 2


@pytest.mark.parametrize("algorithm", ["gigpo", "grpo", "rloo"])
def test_with_any_algorithm_only_adapters_change(base: Path, algorithm: str) -> None:
    recipe = recipe_of(base, f'algorithm = {{name = "{algorithm}"}}')
    assert_only_adapters_change(learner_of(recipe), samples_of(recipe))


def test_a_trust_region_step_is_one_of_the_adapters(base: Path) -> None:
    recipe = recipe_of(base, 'algorithm.update = "trpo"')
    learner = learner_of(recipe)
    samples = samples_of(recipe, GROUPS[:1])
    moved = assert_only_adapters_change(learner, samples)
    # While B is 0 the policy does not depend on A, whose gradient is 0.
    assert all("lora_B" in name for name in moved)
    assert_only_adapters_change(learner, samples)


def test_ppos_critic_trains_adapters_of_its_own_and_its_head(base: Path) -> None:
    recipe = recipe_of(base, 'algorithm = {name = "ppo"}')
    assert isinstance(recipe.algorithm, PpoSettings)
    critic = load_critic(recipe, recipe.algorithm.critic, lambda: None, ALONE)
    trained = [name for name, weight in critic.model.named_parameters() if weight.requires_grad]
    assert {name for name in trained if ".lora_" not in name} == {"head.weight", "head.bias"}
    assert len(trained) == 2 * 7 * 2 + 2


def test_named_layers_alone_get_adapters(base: Path) -> None:
    policy = load_policy(recipe_of(base, 'model.lora_targets = ["q_proj", "v_proj"]').model)
    trained = [name for name, parameter in policy.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 2 * 2
    assert all("q_proj" in name or "v_proj" in name for name in trained)


def test_fresh_adapters_leave_the_base_as_it_was_bit_for_bit(either_base: Path, tmp_path: Path) -> None:
    """Down to the sign of a zero, which is what W + 0 would change."""
    model = AutoModelForCausalLM.from_pretrained(either_base)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[0, :5] = -0.0
    model.save_pretrained(tmp_path / "model")
    save_model(load_policy(recipe_of(tmp_path / "model").model), tmp_path / "pushed")
    assert digest_of_folder(tmp_path / "pushed") == digest_of_folder(tmp_path / "model")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-13)])
def test_merged_weights_compute_what_the_policy_with_adapters_does(
    either_base: Path, tmp_path: Path, dtype: torch.dtype, tolerance: float
) -> None:
    policy = with_moved_adapters(recipe_of(either_base).model).to(dtype)
    before = weights(policy)
    save_model(policy, tmp_path / "merged")
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.state_dict().items()), "merging copies"
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    with torch.inference_mode():
        ours, theirs = policy(IDS).logits, merged(IDS).logits
        with adapters_off(policy):
            unadapted = policy(IDS).logits
    assert (ours - theirs).norm() <= tolerance * ours.norm()
    assert (ours - unadapted).norm() > 0.1 * ours.norm(), "the adapters are large enough to tell"
    assert read_shapes(tmp_path / "merged") == read_shapes(either_base), "a policy server takes nothing else"


def test_a_merged_weight_is_w_plus_alpha_over_rank_times_b_a(base: Path) -> None:
    policy = with_moved_adapters(recipe_of(base, "model.lora_alpha = 12").model)
    layer = policy.model.layers[1].mlp.down_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    expected = layer.base_layer.weight.double() + 12 / 4 * (b.double() @ a.double())
    found = merged_weights(policy)["model.layers.1.mlp.down_proj.weight"]
    assert (found.double() - expected).abs().max() < 1e-7


def test_alpha_is_twice_the_rank_unless_set(recipe: Recipe) -> None:
    assert load_policy(recipe.model).model.layers[0].self_attn.q_proj.scaling["default"] == 2.0


def test_in_bfloat16_the_sum_is_rounded_once(base: Path) -> None:
    policy = with_moved_adapters(recipe_of(base, 'model.dtype = "bfloat16"').model)
    layer = policy.model.layers[0].self_attn.o_proj
    assert layer.base_layer.weight.dtype == torch.bfloat16, "frozen weights are kept as they compute"
    assert layer.lora_A["default"].weight.dtype == torch.float32
    product = layer.lora_B["default"].weight @ layer.lora_A["default"].weight
    exact = layer.base_layer.weight.float() + 2 * product
    assert torch.equal(merged_weights(policy)["model.layers.0.self_attn.o_proj.weight"], exact.bfloat16())


def test_the_reference_is_the_base_and_the_policy_keeps_its_gradients(base: Path, recipe: Recipe) -> None:
    policy, plain = with_moved_adapters(recipe.model), AutoModelForCausalLM.from_pretrained(base).eval()
    samples = samples_of(recipe)
    batch, width = only_batch(samples), samples.mask.shape[1]
    with adapters_off(policy), torch.no_grad():
        found = action_logprobs(policy, batch, width, 1.0)
    with torch.no_grad():
        assert torch.equal(found, action_logprobs(plain, batch, width, 1.0))
    adapted = action_logprobs(policy, batch, width, 1.0)
    assert (adapted - found).abs().max() > 0.05
    torch.autograd.backward(adapted.sum())
    assert all((parameter.grad is not None) == (".lora_" in name) for name, parameter in policy.named_parameters())


def test_the_kl_of_an_update_is_to_the_base(base: Path) -> None:
    """All weights have a second model for a reference; adapters have to give the same KL without one."""
    one = "training.minibatches = 1"
    adapted, whole = learner_of(recipe_of(base, one)), learner_of(recipe_of(base, one, "model.lora_rank = 0"))
    samples = samples_of(recipe_of(base))
    adapted.update(samples, 0)
    whole.whole().load_state_dict(merged_weights(adapted.whole()), strict=False)
    expected = whole.update(samples, 1).kl_reference
    assert expected > 1e-5
    assert adapted.update(samples, 1).kl_reference == pytest.approx(expected, rel=1e-4)


def test_gradients_of_adapters_are_those_of_w_plus_b_a_in_float64(recipe: Recipe) -> None:
    """dL/dA = s Bᵀ (dL/dW) and dL/dB = s (dL/dW) Aᵀ, from the gradient of a plain model with the merged weights."""
    policy = with_moved_adapters(recipe.model)
    samples = samples_of(recipe)
    loss = make_algorithm(recipe).loss

    def backward(model: PreTrainedModel) -> None:
        batch, width = only_batch(samples), samples.mask.shape[1]
        new = action_logprobs(model, batch, width, 1.0)
        at = batch.samples
        known = ActionLogprobs(new, samples.rollout_logprobs[at], None, samples.mask[at], samples.rollout_logprobs[at])
        found = surrogate(known, samples.advantages[at], replace(loss, kl_coefficient=0.0))
        torch.autograd.backward(found.loss)

    plain = AutoModelForCausalLM.from_pretrained(recipe.model.path, dtype=torch.float64).eval()
    plain.load_state_dict(merged_weights(policy.double()), strict=False)
    backward(plain)
    policy = with_moved_adapters(recipe.model)
    backward(policy)
    for name, weight in plain.named_parameters():
        if "proj" not in name:
            continue
        layer = policy.get_submodule(name.removesuffix(".weight"))
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        assert weight.grad is not None
        for found, expected in (
            (a.grad, 2 * b.double().T @ weight.grad),
            (b.grad, 2 * weight.grad @ a.double().T),
        ):
            assert (found.double() - expected).abs().max() <= 1e-4 * expected.abs().max(), name


def test_recomputing_activations_changes_no_gradient(base: Path, recipe: Recipe) -> None:
    found = []
    for settings in (recipe.model, recipe_of(base, "model.gradient_checkpointing = true").model):
        policy = with_moved_adapters(settings)
        samples = samples_of(recipe)
        torch.autograd.backward(action_logprobs(policy, only_batch(samples), samples.mask.shape[1], 1.0).sum())
        found.append({name: p.grad for name, p in policy.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys() != set()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_a_policy_learns_what_is_rewarded(base: Path) -> None:
    """The advantage-weighted log-probability rises when the same samples are trained on again and again."""
    recipe = recipe_of(base, "optimizer.learning_rate = 1e-2", "optimizer.warmup_steps = 0")
    learner, samples = learner_of(recipe), samples_of(recipe)

    def weighted() -> float:
        with torch.no_grad():
            batch = only_batch(samples)
            logprobs = action_logprobs(learner.whole(), batch, samples.mask.shape[1], 1.0)
        return float((logprobs.sum(1) / samples.mask[batch.samples].sum(1) * samples.advantages[batch.samples]).mean())

    before = weighted()
    for step in range(5):
        learner.update(samples, step)
    assert weighted() > before + 0.1


def test_a_job_goes_on_from_base_and_adapters_bit_for_bit(recipe: Recipe, tmp_path: Path) -> None:
    samples = samples_of(recipe)
    learner = learner_of(recipe)
    learner.update(samples, 0)
    checkpoint = save(learner, tmp_path, 1)
    learner.update(samples, 1)
    resumed = learner_of(recipe, checkpoint)
    resumed.update(samples, 1)
    ours, theirs = weights(learner.whole()), weights(resumed.whole())
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert ours.keys() == theirs.keys()


def test_a_checkpoint_is_an_ordinary_model_with_the_adapters_beside_it(
    base: Path, recipe: Recipe, tmp_path: Path
) -> None:
    learner = learner_of(recipe)
    for step in range(3):
        learner.update(samples_of(recipe), step)
    checkpoint = save(learner, tmp_path, 3)
    merged = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    by_peft = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), checkpoint / "adapter").eval()
    with torch.inference_mode():
        ours, theirs = merged(IDS).logits, by_peft(IDS).logits
        plain = AutoModelForCausalLM.from_pretrained(base).eval()(IDS).logits
    assert (ours - theirs).norm() <= 2e-6 * ours.norm()
    assert (ours - plain).norm() > 1e-4 * ours.norm()
    noted = json.loads((checkpoint / "trainer" / "base.json").read_text())
    assert noted["digest"] == digest_of_folder(base)


def checkpoint_of(recipe: Recipe, folder: Path) -> Path:
    return save(learner_of(recipe), folder, 1)


def test_a_job_does_not_go_on_beside_other_weights(recipe: Recipe, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(recipe, tmp_path / "run")
    changed(tiny_model(0, tied=True), seed=1).save_pretrained(tmp_path / "other")
    other = recipe.model_copy(update={"model": recipe.model.model_copy(update={"path": tmp_path / "other"})})
    with pytest.raises(AdapterError, match=r"model\.path = .*other holds other weights .* Bring that one back"):
        learner_of(other, checkpoint)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.lora_rank = 8", r"model\.lora_rank .* r = 8, and .* has 4"),
        ("model.lora_alpha = 3", r"model\.lora_alpha .* = 3, and .* has 8"),
        ('model.lora_targets = ["q_proj"]', r"model\.lora_targets .*\['q_proj'\]"),
    ],
)
def test_a_job_does_not_go_on_with_other_adapters(base: Path, override: str, message: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(recipe_of(base), tmp_path)
    with pytest.raises(AdapterError, match=message):
        learner_of(recipe_of(base, override), checkpoint)


def test_a_job_does_not_change_between_adapters_and_all_weights(base: Path, tmp_path: Path) -> None:
    adapters, whole = recipe_of(base), recipe_of(base, "model.lora_rank = 0")
    with pytest.raises(ModelError, match=r"lora_rank = 0, and .* has adapters"):
        learner_of(whole, checkpoint_of(adapters, tmp_path / "a"))
    with pytest.raises(AdapterError, match=r"began without adapters: set lora_rank = 0"):
        learner_of(adapters, checkpoint_of(whole, tmp_path / "b"))


def test_layers_that_are_not_there_or_share_their_weights_are_refused(tmp_path: Path) -> None:
    base = write_tiny_model(tmp_path / "model", tied=True)
    with pytest.raises(AdapterError, match=r"model\.lora_targets = \['q_prj'\] does not fit the model"):
        load_policy(recipe_of(base, 'model.lora_targets = ["q_prj"]').model)
    with pytest.raises(AdapterError, match=r"lm_head.* share their weights .* leave it out"):
        load_policy(recipe_of(base, 'model.lora_targets = ["q_proj", "lm_head"]').model)


def test_an_output_layer_of_its_own_may_have_an_adapter(tmp_path: Path) -> None:
    base = write_tiny_model(tmp_path / "model", tied=False)
    policy = with_moved_adapters(recipe_of(base, 'model.lora_targets = ["lm_head", "embed_tokens"]').model)
    save_model(policy, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    with torch.inference_mode():
        assert policy(IDS).logits == pytest.approx(merged(IDS).logits, abs=1e-5)
    assert merged.lm_head.weight.shape[0] == VOCABULARY


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.lora_alpha = 16", "lora_rank = 0 trains all weights"),
        ('model.lora_targets = "q_proj"', 'should be "all-linear" or a list of layers'),
        ("model.lora_dropout = 0.1", "model.lora_dropout: unknown key"),
    ],
)
def test_settings_of_adapters_that_make_no_sense_are_refused(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write_recipe(tmp_path), [override])
    assert message in str(caught.value)
