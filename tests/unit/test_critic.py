"""PPO's critic: values read at the right place, what it learns from, and what must not change the result."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from services.trainer.algorithms import Ppo, make_algorithm
from services.trainer.algorithms.base import Floats
from services.trainer.batching import micro_batches
from services.trainer.critic import Critic, ValueModel, explained_variance, load_critic, value_loss
from services.trainer.distributed import ALONE
from services.trainer.metrics import Phases, step_metrics
from services.trainer.rewards import Rewards
from services.trainer.step_data import assemble
from services.trainer.stopping import StopFlag, StoppedError
from services.trainer.update import UpdateStats
from services.trainer.value_samples import Judged, Prompts, ValueSamples, prompts_of
from shared.recipe import CriticSettings, PpoSettings, Recipe, TrainingSettings, load_recipe
from shared.trajectory import Group, Step
from tests.policy_processes import tiny_model
from tests.training import training_group, write_recipe

GROUPS = [training_group(0, index) for index in range(4)]
STEPS = [step for group in GROUPS for episode in group.episodes for step in episode.steps]
BEACH = """
[[environments]]
name = "beach"
[environments.reward]
success = 2.0
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost these tiny models more than they bring, and far more on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    file = write_recipe(tmp_path_factory.mktemp("recipe"))
    file.write_text(file.read_text() + BEACH + '[algorithm]\nname = "ppo"\n')
    return load_recipe(file)


def with_training(recipe: Recipe, **changes: object) -> Recipe:
    training = TrainingSettings.model_validate(recipe.training.model_dump() | changes)
    return recipe.model_copy(update={"training": training})


def value_model(seed: int = 0) -> ValueModel:
    """A value model whose head is not zero."""
    model = ValueModel(tiny_model(seed, tied=False).base_model)
    with torch.no_grad():
        model.head.weight.normal_(0.0, 0.1)
        model.head.bias.fill_(0.25)
    return model


def critic_of(recipe: Recipe, model: ValueModel | None = None, **settings: object) -> Critic:
    chosen = CriticSettings.model_validate({"learning_rate": 1e-3} | settings)
    return Critic(recipe, chosen, model or value_model())


def plain_value(model: ValueModel, step: Step) -> torch.Tensor:
    """The value of one prompt, the long way: the last token of one sequence."""
    tokens = torch.from_numpy(step.prompt_token_ids.astype(np.int64)).unsqueeze(0)
    value: torch.Tensor = model.head(model.body(input_ids=tokens).last_hidden_state[0, -1])[0]
    return value


def samples_of(groups: list[Group], targets: Floats | None = None, old: Floats | None = None) -> ValueSamples:
    """All steps, with made-up numbers in the place of values and targets unless given."""
    prompts, random = prompts_of(groups), np.random.default_rng(0)
    made_up = random.normal(0.3, 0.2, (2, len(prompts)))
    return ValueSamples(Judged(prompts, made_up[0] if old is None else old), made_up[1] if targets is None else targets)


@pytest.mark.parametrize("budget", [128, 1 << 20])
def test_values_are_those_of_one_prompt_at_a_time(recipe: Recipe, budget: int) -> None:
    critic = critic_of(with_training(recipe, micro_batch_tokens=budget))
    values = critic.values(prompts_of(GROUPS))
    with torch.inference_mode():
        expected = [float(plain_value(critic.model, step)) for step in STEPS]
    assert values == pytest.approx(expected, abs=2e-6)
    assert np.std(values) > 0.1, "they differ from one another"


def growing(step: Step, turns: int) -> tuple[Step, ...]:
    """Steps whose prompts each begin with the prompt and the action before."""
    steps = [step]
    for _ in range(turns - 1):
        last = steps[-1]
        tokens = np.concatenate([last.prompt_token_ids, last.token_ids, last.prompt_token_ids[:5]]).astype(np.int32)
        steps.append(replace(last, prompt_token_ids=tokens))
    return tuple(steps)


def test_prompts_that_show_the_whole_history_are_one_row_an_episode(recipe: Recipe) -> None:
    episodes = tuple(replace(e, steps=growing(e.steps[0], 4)) for e in GROUPS[0].episodes)
    prompts, critic = prompts_of([replace(GROUPS[0], episodes=episodes)]), critic_of(recipe)
    (batch,) = micro_batches(prompts, np.arange(len(prompts)), 1 << 20)
    assert batch.input_ids.shape == (4, max(len(episode.steps[-1].prompt_token_ids) for episode in episodes))
    with torch.inference_mode():
        expected = [float(plain_value(critic.model, step)) for episode in episodes for step in episode.steps]
    assert critic.values(prompts) == pytest.approx(expected, abs=2e-6)


def test_a_new_critic_says_zero(recipe: Recipe) -> None:
    critic = critic_of(recipe, ValueModel(tiny_model(0, tied=True).base_model))
    assert not critic.values(prompts_of(GROUPS)).any()


def test_the_value_loss_by_hand() -> None:
    """Clip ½ around 0: the first stays inside, the second has gone far enough, the third went the wrong way."""
    values = torch.tensor([0.25, 0.75, 0.75], requires_grad=True)
    old, targets = torch.zeros(3), torch.tensor([1.0, 1.0, -1.0])
    loss = value_loss(values, old, targets, 0.5)
    # Held at ½, the second is ½ away from its target: more than the ¼ that it is, so that counts.
    assert float(loss.detach()) == pytest.approx(0.5 * (0.75**2 + 0.5**2 + 1.75**2))
    (gradient,) = torch.autograd.grad(loss, values)
    assert gradient.tolist() == pytest.approx([-0.75, 0.0, 1.75])
    free = value_loss(values, old, targets, None)
    assert float(free.detach()) == pytest.approx(0.5 * (0.75**2 + 0.25**2 + 1.75**2))


def test_explained_variance_by_hand() -> None:
    targets = np.array([0.0, 1.0, 2.0, 3.0])  # variance 5/4
    assert explained_variance(targets, targets) == 1.0
    assert explained_variance(targets - 7, targets) == 1.0, "an offset is no variance"
    assert explained_variance(np.zeros(4), targets) == 0.0
    assert explained_variance(np.array([0.0, 0.0, 2.0, 2.0]), targets) == pytest.approx(1 - (1 / 4) / (5 / 4))
    assert explained_variance(np.array([1.0, 2.0]), np.ones(2)) == 0.0, "nothing to explain"


def gradients(critic: Critic, samples: ValueSamples) -> list[torch.Tensor]:
    """Gradients of one minibatch with all samples."""
    critic.optimizer.step = lambda *_: None  # type: ignore[method-assign]
    critic.optimizer.zero_grad = lambda *_, **__: None  # type: ignore[method-assign]
    critic.update(samples, step=0)
    return [parameter.grad for parameter in critic.model.parameters() if parameter.grad is not None]


def test_the_gradient_is_that_of_a_plain_loop_in_float64(recipe: Recipe) -> None:
    whole = recipe.model_copy(update={"optimizer": recipe.optimizer.model_copy(update={"max_grad_norm": 1e9})})
    samples = samples_of(GROUPS)
    found = gradients(critic_of(with_training(whole, minibatches=1, micro_batch_tokens=300)), samples)

    model = value_model().double()
    values = torch.stack([plain_value(model, step) for step in STEPS])
    old, targets = torch.from_numpy(samples.judged.values), torch.from_numpy(samples.targets)
    held = torch.minimum(torch.maximum(values, old - 0.5), old + 0.5)
    loss = torch.maximum((values - targets) ** 2, (held - targets) ** 2).mean() / 2
    expected = torch.autograd.grad(loss, list(model.parameters()))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-6


def test_micro_batches_and_padding_do_not_change_the_gradient(recipe: Recipe) -> None:
    samples = samples_of(GROUPS)
    few, many = (
        gradients(critic_of(with_training(recipe, minibatches=1, micro_batch_tokens=budget)), samples)
        for budget in (1 << 16, 128)
    )
    for one, other in zip(few, many, strict=True):
        assert float((one - other).abs().max()) < 1e-6


def test_it_learns_what_a_prompt_tells(recipe: Recipe) -> None:
    """The first token says how many steps are left: a value of ½ to that power."""
    random, steps, targets = np.random.default_rng(0), [], []
    for step in STEPS:
        left = int(random.integers(4))
        steps.append(replace(step, prompt_token_ids=np.array([10 + left, *step.prompt_token_ids[:6]], np.int32)))
        targets.append(0.5**left)
    group = replace(GROUPS[0], episodes=tuple(replace(GROUPS[0].episodes[0], steps=(step,)) for step in steps))
    critic = critic_of(recipe, ValueModel(tiny_model(0, tied=False).base_model), epochs=2, value_clip=None)
    prompts = prompts_of([group])
    explained = []
    for turn in range(12):
        samples = ValueSamples(Judged(prompts, critic.values(prompts)), np.array(targets))
        explained.append(critic.update(samples, turn).explained_variance)
    assert explained[0] == 0.0
    assert explained[-1] > 0.9


def test_targets_are_the_lambda_returns_in_units_of_a_success(recipe: Recipe) -> None:
    """A success pays 10 in the maze and 2 at the beach, and is worth 1 to the critic in both."""
    one = replace(GROUPS[0].episodes[0], steps=GROUPS[0].episodes[0].steps[:2])
    won = replace(one, steps=(replace(one.steps[0], reward=0.0), replace(one.steps[1], reward=1.0)))
    maze = replace(GROUPS[0], episodes=(won,))
    groups = [maze, replace(maze, environment="beach")]
    judged = Judged(prompts_of(groups), np.array([0.5, 0.25, 0.5, 0.25]))
    settings = PpoSettings(gamma=0.5, lam=0.5)
    data = assemble(groups, Ppo(settings, recipe.min_std), Rewards(recipe), 0, judged)
    # Last step: δ = 1 − ¼. First: δ = ½·¼ − ½ = −⅜, A = −⅜ + ¼·¾. Targets are A + V.
    assert data.for_critic is not None
    assert data.for_critic.targets == pytest.approx([5 / 16, 1.0] * 2)
    first, second = data.credits
    assert first.values.tolist() == [5.0, 2.5]
    assert second.values.tolist() == [1.0, 0.5]


def test_the_critic_learns_from_all_steps_and_the_policy_from_those_with_signal(recipe: Recipe) -> None:
    lost = [training_group(0, index, won=False) for index in range(2)]
    prompts = prompts_of(lost)
    data = assemble(lost, make_algorithm(recipe), Rewards(recipe), 0, Judged(prompts, np.zeros(len(prompts))))
    assert len(data.samples) == 0
    assert data.for_critic is not None
    assert len(data.for_critic.judged.prompts) == len(data.for_critic.targets) == data.stats.environment_steps


def test_epochs_and_minibatches_are_its_own(recipe: Recipe) -> None:
    critic = critic_of(with_training(recipe, epochs=5, minibatches=3), epochs=2)
    critic.update(samples_of(GROUPS), step=0)
    (step,) = {int(state["step"]) for state in critic.optimizer.state.values()}
    assert step == 6


def test_no_step_at_all_teaches_nothing(recipe: Recipe) -> None:
    nothing = ValueSamples(Judged(prompts_of([]), np.zeros(0)), np.zeros(0))
    assert critic_of(recipe).update(nothing, step=0).value_loss == 0.0


def test_a_stop_is_heeded_between_micro_batches(recipe: Recipe) -> None:
    flag = StopFlag()
    critic = Critic(recipe, CriticSettings(), value_model(), flag.check)
    flag.set()
    with pytest.raises(StoppedError):
        critic.values(prompts_of(GROUPS))
    with pytest.raises(StoppedError):
        critic.update(samples_of(GROUPS), step=0)


def test_it_is_saved_and_restored_to_the_bit(recipe: Recipe, tmp_path: Path) -> None:
    samples, straight = samples_of(GROUPS), critic_of(recipe)
    straight.update(samples, step=0)
    straight.save(tmp_path)
    assert list((tmp_path / "critic").glob("*.safetensors"))
    resumed = critic_of(recipe, value_model(seed=5))
    resumed.restore(tmp_path)
    for critic in (straight, resumed):
        critic.update(samples, step=1)
    for one, other in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_begins_as_the_policys_network(recipe: Recipe, tmp_path: Path) -> None:
    tiny_model(0, tied=True).save_pretrained(tmp_path)
    own = recipe.model_copy(update={"model": recipe.model.model_copy(update={"path": tmp_path})})
    critic = load_critic(own, CriticSettings(), lambda: None, ALONE)
    expected = tiny_model(0, tied=True).base_model.state_dict()
    found = critic.model.body.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_with_adapters_it_trains_and_keeps_adapters_and_head_alone(recipe: Recipe, tmp_path: Path) -> None:
    tiny_model(0, tied=True).save_pretrained(tmp_path / "model")
    model = recipe.model.model_copy(update={"path": tmp_path / "model", "lora_rank": 4})
    own = recipe.model_copy(update={"model": model})
    critic = load_critic(own, CriticSettings(learning_rate=1e-2), lambda: None, ALONE)
    assert not critic.values(prompts_of(GROUPS)).any()
    critic.update(samples_of(GROUPS), step=0)
    critic.save(tmp_path)
    (file,) = (tmp_path / "critic").glob("*.safetensors")
    weights = [name for name in load_file(file) if name.startswith("weight/")]
    assert {"weight/head.weight", "weight/head.bias"} < set(weights)
    assert all(".lora_" in name or "/head." in name for name in weights)

    torch.manual_seed(5)  # other adapters at first
    resumed = load_critic(own, CriticSettings(), lambda: None, ALONE)
    resumed.restore(tmp_path)
    assert np.array_equal(resumed.values(prompts_of(GROUPS)), critic.values(prompts_of(GROUPS)))


def test_metrics_tell_of_a_critic_where_there_is_one(recipe: Recipe) -> None:
    critic, prompts = critic_of(recipe), prompts_of(GROUPS)
    judged = Judged(prompts, critic.values(prompts))
    data = assemble(GROUPS, make_algorithm(recipe), Rewards(recipe), 0, judged)
    assert data.for_critic is not None
    stats = critic.update(data.for_critic, step=0)
    told = step_metrics(0, data, UpdateStats(), stats, 0, 0, Phases())
    assert told["value_mean"] == pytest.approx(judged.values.mean())
    assert {"value_loss", "explained_variance", "critic_grad_norm"} <= told.keys()
    assert "value_loss" not in step_metrics(0, data, UpdateStats(), None, 0, 0, Phases())


def test_prompts_number_the_episodes_of_all_groups() -> None:
    prompts: Prompts = prompts_of(GROUPS)
    assert np.unique(prompts.episodes).tolist() == list(range(16))
    assert len(prompts) == len(STEPS)
    assert prompts.sequences[3][:-1].tolist() == STEPS[3].prompt_token_ids.tolist()
