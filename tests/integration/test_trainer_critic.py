"""PPO through the trainer as a process: a critic that warms up, is kept in checkpoints, and survives a kill."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from shared.weights_digest import digest_of_folder
from tests.policy_processes import write_tiny_model
from tests.training import (
    SHARDED,
    WeightEndpoint,
    add_groups,
    metrics_of,
    start_trainer,
    start_weight_endpoint,
    training_group,
    wait_until_pushed,
    write_recipe,
)

STEPS = 4
GROUPS = [training_group(step, index) for step in range(STEPS) for index in range(4)]
FIGURES = ("value_loss", "explained_variance", "value_mean", "critic_grad_norm", "loss", "grad_norm")
SAME = 1e-5
START_S = 400.0
"""A process takes seconds to import what it needs, far more on a busy machine."""

PPO = (
    'algorithm.name = "ppo"',
    "algorithm.critic.learning_rate = 1e-3",
    "algorithm.critic.epochs = 2",
    "algorithm.critic.warmup_steps = 1",
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Also what sharding could get wrong: tied weights and recomputed activations."""
    folder = tmp_path_factory.mktemp("critic")
    write_tiny_model(folder / "model", tied=True)
    return write_recipe(
        folder, *SHARDED, *PPO, steps=STEPS, micro_batch_tokens=256, checkpoint_every=2, keep_checkpoints=9
    )


@pytest.fixture(scope="module")
def undisturbed(redis_url: str, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WeightEndpoint]:
    """The run folder of one process that nobody disturbed, and what it pushed."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    add_groups(redis_url, "undisturbed", GROUPS)
    with (
        start_weight_endpoint() as endpoint,
        start_trainer("undisturbed", recipe, run, redis_url, endpoint.url) as trainer,
    ):
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    return run, endpoint


@pytest.mark.timeout(900)
def test_a_ppo_job_trains_policy_and_critic(undisturbed: tuple[Path, WeightEndpoint]) -> None:
    run, endpoint = undisturbed
    digests = [digest for _, digest in endpoint.history]
    assert digests[0] == digests[1], "in the first training step only the critic learns, and the version goes on"
    assert len(set(digests[1:])) == STEPS
    lines = metrics_of(run)
    assert [line["version"] for line in lines] == [1, 2, 3, 4]
    assert lines[0]["samples"] == lines[0]["tokens_trained"] == 0
    assert all(line["samples"] > 20 for line in lines[1:])
    assert lines[0]["value_mean"] == lines[0]["explained_variance"] == 0.0, "a new critic says zero"
    assert all(line["value_mean"] > 0 for line in lines[1:])
    assert all(line["value_loss"] > 0 and line["critic_grad_norm"] > 0 and line["seconds_critic"] > 0 for line in lines)
    for version in (2, 4):
        kept = critic_of(run / "checkpoints" / f"step-{version:06d}")
        assert {"weight/head.weight", "exp_avg/head.weight", "exp_avg_sq/body.norm.weight"} <= kept.keys()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_on_its_way_it_ends_with_the_same_critic(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, undisturbed: tuple[Path, WeightEndpoint], tmp_path: Path
) -> None:
    job, run = "killed", tmp_path / "run"
    add_groups(redis_url, job, GROUPS)
    # After the pushes of version 1 and 3 and before the next one is a critic that no checkpoint has.
    for version in (1, 3):
        seen = len(endpoint.history)
        with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
            wait_until_pushed(endpoint, version, seen)
            trainer.kill()
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()

    assert len(dict(endpoint.history)) == len(set(endpoint.history)) == STEPS + 1, "a version has one digest"
    last = Path("checkpoints", f"step-{STEPS:06d}")
    straight = undisturbed[0]
    assert digest_of_folder(run / last) == digest_of_folder(straight / last)
    ours, theirs = critic_of(straight / last), critic_of(run / last)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert figures(run) == figures(straight)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_teach_a_critic_as_one_does_and_one_goes_on_from_their_checkpoint(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, undisturbed: tuple[Path, WeightEndpoint], tmp_path: Path
) -> None:
    job, run = "two", tmp_path / "run"
    straight = undisturbed[0]
    add_groups(redis_url, job, GROUPS)
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    shards = [load_file(file) for file in (run / "checkpoints/step-000004/trainer/critic").glob("*.safetensors")]
    assert [len(shard["weight/body.embed_tokens.weight"]) for shard in shards] == [150, 150]
    assert_same_training(straight, run)

    again = tmp_path / "again"
    (again / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "step-000002").rename(again / "checkpoints" / "step-000002")
    add_groups(redis_url, "again", [group for group in GROUPS if group.step >= 2])
    with start_trainer("again", recipe, again, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    assert_same_training(straight, again, first=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_bfloat16_with_adapters_the_critic_has_a_float32_head_and_adapters_of_its_own(
    redis_url: str, endpoint: WeightEndpoint, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "model")
    file = write_recipe(tmp_path, 'model.dtype = "bfloat16"', "model.lora_rank = 4", *PPO, steps=2)
    add_groups(redis_url, "bfloat16", GROUPS[:8])
    run = tmp_path / "run"
    with start_trainer("bfloat16", file, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    first, second = metrics_of(run)
    assert first["value_loss"] > 0
    assert second["value_mean"] != 0
    assert second["samples"] > 20
    kept = critic_of(run / "checkpoints" / "step-000002")
    weights = [name for name in kept if name.startswith("weight/")]
    assert all(".lora_" in name or "/head." in name for name in weights)
    assert {kept[name].dtype for name in weights} == {torch.float32}


def critic_of(checkpoint: Path) -> dict[str, Tensor]:
    """Weights and moments, the shards put together."""
    parts: dict[str, list[Tensor]] = {}
    for file in sorted((checkpoint / "trainer" / "critic").glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            parts.setdefault(name, []).append(tensor)
    # A number of steps is whole in every file, and so is a tensor too short to be cut.
    return {name: tensors[0] if name.startswith("step/") else torch.cat(tensors) for name, tensors in parts.items()}


def figures(run: Path, first: int = 0) -> list[dict[str, float]]:
    """What each training step from ``first`` on says of policy and critic."""
    return [{name: line[name] for name in FIGURES} for line in metrics_of(run) if line["step"] >= first]


def assert_same_training(one: Path, other: Path, first: int = 0) -> None:
    """The same figures of each step, and in the end the same weights and moments."""
    for line, another in zip(figures(one, first), figures(other, first), strict=True):
        assert another == pytest.approx(line, rel=SAME, abs=SAME)
    last = Path("checkpoints", f"step-{STEPS:06d}")
    ours, theirs = critic_of(one / last), critic_of(other / last)
    ours |= load_file(one / last / "model.safetensors")
    theirs |= load_file(other / last / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) <= SAME
