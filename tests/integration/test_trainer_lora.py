"""Jobs that train adapters, with the trainer as a process: whole, killed, on two processes, in bfloat16."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from shared.weights_digest import digest_of_folder
from tests.integration.test_trainer_processes import START_S, STEPS, add_all_groups, differences, wait_until_pushed
from tests.integration.test_trainer_processes import assert_same_training as assert_same
from tests.policy_processes import write_tiny_model
from tests.training import SHARDED, WeightEndpoint, metrics_of, start_trainer, start_weight_endpoint, write_recipe

LAST = Path("checkpoints", f"step-{STEPS:06d}")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    write_tiny_model(folder / "model", tied=True)
    return lora_recipe(folder)


def lora_recipe(folder: Path, *changes: str) -> Path:
    """Adapters beside what they could get wrong: tied weights, recomputed activations, a reference, two epochs."""
    changes = ("model.lora_rank = 4", *SHARDED, *changes)
    return write_recipe(
        folder, *changes, steps=STEPS, epochs=2, micro_batch_tokens=256, checkpoint_every=1, keep_checkpoints=9
    )


@pytest.fixture(scope="module")
def uninterrupted(
    redis_url: str, recipe: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, WeightEndpoint]:
    """The run folder of one process that nobody disturbed, and what it pushed."""
    run = tmp_path_factory.mktemp("one") / "run"
    add_all_groups(redis_url, "one")
    with start_weight_endpoint() as endpoint, start_trainer("one", recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    return run, endpoint


def test_a_job_pushes_merged_weights_and_keeps_the_adapters(
    recipe: Path, uninterrupted: tuple[Path, WeightEndpoint]
) -> None:
    run, endpoint = uninterrupted
    pushed = dict(endpoint.history)  # on a busy machine a push may time out and come twice
    assert list(pushed) == list(range(STEPS + 1))
    base, last = digest_of_folder(recipe.parent / "model"), run / LAST
    assert pushed[0] == base, "fresh adapters change nothing"
    assert len(set(pushed.values())) == STEPS + 1
    assert pushed[STEPS] == digest_of_folder(last)
    AutoModelForCausalLM.from_pretrained(last)
    before, after = load_file(recipe.parent / "model" / "model.safetensors"), load_file(last / "model.safetensors")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if "proj" in name}
    (moments,) = (last / "trainer").glob("*.safetensors")
    assert {name.split(".lora_")[0] for name in load_file(moments) if name.startswith("exp_avg/")} == {
        f"exp_avg/{name.removesuffix('.weight')}" for name in moved
    }
    lines = metrics_of(run)
    assert [line["step"] for line in lines] == list(range(STEPS))
    assert all(line["grad_norm"] > 0 for line in lines)
    assert lines[-1]["kl_reference"] > lines[0]["kl_reference"] > 0, "the policy moves away from its base"


@pytest.mark.slow
def test_killed_it_goes_on_to_the_same_weights_bit_for_bit(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, uninterrupted: tuple[Path, WeightEndpoint], tmp_path: Path
) -> None:
    job, run = "killed", tmp_path / "run"
    add_all_groups(redis_url, job)
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        wait_until_pushed(endpoint, 2)
        trainer.kill()
    assert not (run / LAST).exists(), "killed in the middle"
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    assert set(endpoint.history) == set(uninterrupted[1].history)
    for file in ("model.safetensors", "adapter/adapter_model.safetensors"):
        assert (run / LAST / file).read_bytes() == (uninterrupted[0] / LAST / file).read_bytes()


@pytest.mark.slow
def test_beside_other_weights_it_does_not_go_on(
    redis_url: str, endpoint: WeightEndpoint, uninterrupted: tuple[Path, WeightEndpoint], tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "model", seed=1, tied=True)
    run = uninterrupted[0]
    with start_trainer("one", lora_recipe(tmp_path), run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) != 0
        assert "holds other weights than when this job began" in trainer.log.read_text()
    assert endpoint.history == []


@pytest.mark.slow
def test_two_processes_train_adapters_as_one_does(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, uninterrupted: tuple[Path, WeightEndpoint], tmp_path: Path
) -> None:
    """And one process goes on with what two have begun."""
    job, run = "two", tmp_path / "run"
    add_all_groups(redis_url, job)
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        wait_until_pushed(endpoint, 3)
        assert trainer.terminate(60) != 0, "torchrun was interrupted"
    assert (last := endpoint.history[-1][0]) < STEPS, f"stopped only at version {last}: nothing is left to resume"
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    assert endpoint.history[0][1] == digest_of_folder(recipe.parent / "model")
    assert_same(uninterrupted[0], run)
    ours, theirs = (load_file(one / LAST / "adapter/adapter_model.safetensors") for one in (run, uninterrupted[0]))
    assert differences(ours, theirs) <= 1e-5


@pytest.mark.slow
def test_in_bfloat16_frozen_weights_and_what_is_pushed_take_half_the_memory(
    redis_url: str, endpoint: WeightEndpoint, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "model", tied=True)
    recipe = lora_recipe(tmp_path, 'model.dtype = "bfloat16"')
    job, run = "bfloat16", tmp_path / "run"
    add_all_groups(redis_url, job)
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    merged = load_file(run / LAST / "model.safetensors")
    assert {tensor.dtype for tensor in merged.values()} == {torch.bfloat16}
    adapters = load_file(run / LAST / "adapter/adapter_model.safetensors")
    assert {tensor.dtype for tensor in adapters.values()} == {torch.float32}
    base = load_file(tmp_path / "model" / "model.safetensors")
    assert any(not torch.equal(tensor, base[name].bfloat16()) for name, tensor in merged.items())
    assert all(0 < line["grad_norm"] < 100 for line in metrics_of(run))
