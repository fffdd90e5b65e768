"""A job whose worker is two processes under torchrun, as a trainer service on several GPUs runs it."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from shared.schemas.job import JobState
from tests.job_service import JobSystem, TrainerUnderTest

pytestmark = pytest.mark.slow

TWO = "2"


def test_a_job_on_two_processes_learns_what_one_process_learns(system: JobSystem) -> None:
    recipe = system.recipe(steps=2)
    # With a tiny epsilon AdamW would make full steps of gradients that are nothing but rounding.
    recipe["optimizer"] = recipe["optimizer"] | {"epsilon": 1e-5}
    for job, processes in (("one", "1"), ("two", TWO)):
        with system.trainer(GAGPO_TRAINER_NPROC=processes) as trainer:
            assert trainer.submit(recipe, job).status_code == 201
            system.add_groups(job, range(2))
            trainer.wait_for(job, JobState.COMPLETED)
    one, two = (_weights(system.runs / job) for job in ("one", "two"))
    assert one.keys() == two.keys()
    for name, weights in one.items():
        torch.testing.assert_close(two[name], weights, rtol=0, atol=1e-5)


def test_cancelling_ends_both_processes(system: JobSystem) -> None:
    with system.trainer(GAGPO_TRAINER_NPROC=TWO) as trainer:
        assert trainer.submit(system.recipe(steps=3), "cancelled").status_code == 201
        system.add_groups("cancelled", range(1))
        trainer.wait_for_version("cancelled", 1)
        workers = _below(trainer.worker_pid())
        assert len(workers) == int(TWO)
        assert trainer.post("cancelled/cancel").json()["state"] == "cancelled"
        # The next job has the folder's lock and the ports to itself.
        assert trainer.submit(system.recipe(steps=1), "next").status_code == 201
        system.add_groups("next", range(1))
        trainer.wait_for("next", JobState.COMPLETED)
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_service_told_to_stop_goes_on_with_the_job_on_another_number_of_processes(system: JobSystem) -> None:
    with system.trainer(GAGPO_TRAINER_NPROC=TWO) as trainer:
        assert trainer.submit(system.recipe(steps=3), "moved").status_code == 201
        system.add_groups("moved", range(1))
        trainer.wait_for_version("moved", 1)
        assert trainer.stop() < 10
    with system.trainer(GAGPO_TRAINER_NPROC="1") as trainer:
        system.add_groups("moved", range(1, 3))
        done = trainer.wait_for("moved", JobState.COMPLETED)
        assert (done.policy_version, done.reason) == (3, "all training steps are done")
        steps = [int(line["step"]) for line in _metrics(trainer, "moved")]
    assert steps == [0, 1, 2]


def test_a_process_that_is_killed_is_replaced_with_its_sibling(system: JobSystem) -> None:
    with system.trainer(GAGPO_TRAINER_NPROC=TWO) as trainer:
        assert trainer.submit(system.recipe(steps=2), "killed").status_code == 201
        system.add_groups("killed", range(1))
        trainer.wait_for_version("killed", 1)
        os.kill(_below(trainer.worker_pid())[-1], signal.SIGKILL)
        system.add_groups("killed", range(1, 2))
        done = trainer.wait_for("killed", JobState.COMPLETED)
        assert done.policy_version == 2
        assert [int(line["step"]) for line in _metrics(trainer, "killed")] == [0, 1]


def _weights(run: Path) -> dict[str, torch.Tensor]:
    (newest,) = sorted((run / "checkpoints").iterdir())[-1:]
    return load_file(newest / "model.safetensors")


def _below(pid: int) -> list[int]:
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _metrics(trainer: TrainerUnderTest, job: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in trainer.get(f"{job}/metrics").text.splitlines()]
