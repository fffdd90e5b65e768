"""The trainer on two processes against the trainer on one: the same figures, weights and moments (gloo, FSDP2)."""

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from services.trainer.checkpoints import read_state
from shared.buffer import GroupReader, JobChannel
from shared.credit_record import read_credit_record
from shared.run_layout import RunFiles
from shared.schemas.job import JobState
from tests.policy_processes import write_tiny_model
from tests.training import (
    SHARDED,
    Trainer,
    WeightEndpoint,
    add_groups,
    metrics_of,
    start_trainer,
    start_weight_endpoint,
    training_group,
    wait_until_pushed,
    write_recipe,
)

STEPS = 5
SAME = 1e-5
FIGURES = ("loss", "grad_norm", "kl_reference", "kl_old_new", "entropy", "clip_fraction", "logprob_difference_mean")

# A process takes seconds to import what it needs, far more on a busy machine, and a test starts up to seven.
pytestmark = pytest.mark.timeout(900)
START_S = 240.0


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What sharding could get wrong: tied weights, recomputed activations, a reference, two epochs."""
    folder = tmp_path_factory.mktemp("trainer")
    write_tiny_model(folder / "model", tied=True)
    return write_recipe(
        folder, *SHARDED, steps=STEPS, epochs=2, micro_batch_tokens=256, checkpoint_every=1, keep_checkpoints=9
    )


@pytest.fixture(scope="module")
def one_process(redis_url: str, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of one process that nobody disturbed."""
    run = tmp_path_factory.mktemp("one") / "run"
    add_all_groups(redis_url, "one")
    with (
        start_weight_endpoint() as endpoint,
        start_trainer("one", recipe, run, redis_url, endpoint.url) as trainer,
    ):
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    return run


def test_two_processes_train_as_one_does(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, one_process: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    add_all_groups(redis_url, "two")
    with start_trainer("two", recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()

    assert [version for version, _ in endpoint.history] == list(range(STEPS + 1))
    assert JobChannel(redis_url, "two").state() is JobState.COMPLETED
    assert_same_training(one_process, run)
    last = run / "checkpoints" / f"step-{STEPS:06d}"
    assert read_state(last).consumed == [(STEPS - 1, index) for index in range(4)]
    AutoModelForCausalLM.from_pretrained(last)
    shards = [load_file(file) for file in (last / "trainer").glob("*.safetensors")]
    name = "exp_avg/model.embed_tokens.weight"
    assert [len(shard[name]) for shard in shards] == [150, 150], "each process has written its half"
    with GroupReader(redis_url, "two") as reader:
        assert reader.frontier() == STEPS
        assert reader.held_bytes() == 0


@pytest.mark.slow
def test_resumed_on_other_numbers_of_processes_it_ends_with_the_same_weights(
    redis_url: str, endpoint: WeightEndpoint, recipe: Path, one_process: Path, tmp_path: Path
) -> None:
    job, run = "resumed", tmp_path / "run"
    add_all_groups(redis_url, job)
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        wait_until_pushed(endpoint, 2)
        os.kill(process_of_rank(trainer, 1), signal.SIGKILL)
        assert trainer.wait(120) != 0
        assert JobChannel(redis_url, job).state() is JobState.RUNNING, "a lost process does not make a job fail"
    with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
        wait_until_pushed(endpoint, 3)
        assert trainer.terminate(60) == 128 + signal.SIGTERM
    assert (last := endpoint.history[-1][0]) < STEPS, f"stopped only at version {last}: nothing is left to resume"
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        assert trainer.wait(START_S) == 0, trainer.log.read_text()
    assert_same_training(one_process, run)


@pytest.mark.slow
def test_two_processes_stop_together(redis_url: str, endpoint: WeightEndpoint, recipe: Path, tmp_path: Path) -> None:
    job, run = "stopped", tmp_path / "run"
    channel = JobChannel(redis_url, job)
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        wait_until_pushed(endpoint, 0)
        assert trainer.terminate(60) != 0, "torchrun was interrupted"
    assert channel.state() is JobState.RUNNING
    assert "stopped by SIGTERM" in trainer.log.read_text()
    with start_trainer(job, recipe, run, redis_url, endpoint.url, processes=2) as trainer:
        wait_until_pushed(endpoint, 0, seen=1)
        channel.set_state(JobState.CANCELLED)
        assert trainer.wait(60) == 0, trainer.log.read_text()
    assert channel.state() is JobState.CANCELLED


def add_all_groups(redis_url: str, job: str) -> None:
    add_groups(redis_url, job, [training_group(step, index) for step in range(STEPS) for index in range(4)])


def assert_same_training(one: Path, other: Path) -> None:
    """The same figures of each step, and in the end the same weights and moments."""
    lines, others = metrics_of(one), metrics_of(other)
    assert [line["step"] for line in others] == list(range(STEPS))
    for line, another in zip(lines, others, strict=True):
        assert {name: another[name] for name in FIGURES} == pytest.approx(
            {name: line[name] for name in FIGURES}, rel=SAME, abs=SAME
        )
    for step in range(STEPS):
        records = [read_credit_record(RunFiles(run).credit_record(step)) for run in (one, other)]
        for mine, its in zip(*(record.groups for record in records), strict=True):
            assert mine.credit.ratios == pytest.approx(its.credit.ratios, rel=SAME, nan_ok=True)
            assert mine.credit.clipped.tolist() == its.credit.clipped.tolist()
            assert mine.credit.advantages.tolist() == its.credit.advantages.tolist()
    last = Path("checkpoints", f"step-{STEPS:06d}")
    weights, theirs = load_file(one / last / "model.safetensors"), load_file(other / last / "model.safetensors")
    assert differences(weights, theirs) <= SAME
    assert differences(moments(one / last), moments(other / last)) <= SAME


def moments(checkpoint: Path) -> dict[str, Tensor]:
    """The optimizer's moments, the shards put together."""
    parts: dict[str, list[Tensor]] = {}
    for file in sorted((checkpoint / "trainer").glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            if name.startswith("exp_avg"):
                parts.setdefault(name, []).append(tensor)
    return {name: torch.cat(tensors) for name, tensors in parts.items()}


def differences(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference between two numbers at the same place."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def process_of_rank(trainer: Trainer, rank: int) -> int:
    """Id of the process that torchrun gave a rank."""
    children = Path(f"/proc/{trainer.process.pid}/task/{trainer.process.pid}/children").read_text().split()
    for child in children:
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"torchrun has started {children}, none of them rank {rank}")
