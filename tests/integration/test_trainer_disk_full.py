"""A disk that fills up while a checkpoint is written: a small file system of the test's own."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.buffer import EventReader
from tests.policy_processes import write_tiny_model
from tests.training import Trainer, WeightEndpoint, add_groups, start_trainer, training_group, write_recipe

STEPS = 12
PATIENCE_S = 280.0
"""A start takes seconds on a quiet machine, and minutes on one that is busy with other things."""

pytestmark = pytest.mark.timeout(900)

ROOM_FOR_WEIGHTS = 900_000
"""Bytes: less than a checkpoint's 1.4 million, more than the half million of one version's weights."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """A file that takes all of the file system but ``leave`` bytes."""
    filler, chunk = disk / "filler", 64 * 1024
    free = int(subprocess.check_output(["stat", "-f", "-c", "%a", str(disk)])) * 4096
    with filler.open("wb") as file:
        for _ in range((free - leave) // chunk):
            file.write(b"\0" * chunk)
    return filler


def wait_for(path: Path, trainer: Trainer) -> None:
    give_up = time.monotonic() + 2 * PATIENCE_S
    while not path.exists():
        assert time.monotonic() < give_up and trainer.process.poll() is None, trainer.log.read_text()
        time.sleep(0.01)


def test_a_checkpoint_that_does_not_fit_ends_the_job_in_words_and_costs_no_other_checkpoint(
    redis_url: str, endpoint: WeightEndpoint, small_disk: Path, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path / "model")
    recipe = write_recipe(tmp_path, steps=STEPS, checkpoint_every=6)
    run, checkpoints = small_disk / "run", small_disk / "run" / "checkpoints"
    add_groups(redis_url, "full", [training_group(step, index) for step in range(STEPS) for index in range(4)])
    with start_trainer("full", recipe, run, redis_url, endpoint.url) as trainer:
        wait_for(checkpoints / "step-000006", trainer)
        filler = fill(small_disk, ROOM_FOR_WEIGHTS)
        assert trainer.wait(PATIENCE_S) == 1, trainer.log.read_text()
    said = trainer.log.read_text()
    assert f"out of disk: {run} has " in said and "training.keep_checkpoints" in said
    assert "Traceback" not in said
    assert [path.name for path in checkpoints.iterdir()] == ["step-000006"], "nothing half written is left"
    reader = EventReader(redis_url, "full")
    (ended,) = [event.payload for event in reader.read("0") if event.kind == "trainer-ended"]
    reader.close()
    assert ended["state"] == "failed" and str(ended["reason"]).startswith("out of disk")

    filler.unlink()
    with start_trainer("full", recipe, run, redis_url, endpoint.url) as trainer:
        assert trainer.wait(PATIENCE_S) == 0, trainer.log.read_text()
    assert [version for version, _ in endpoint.history][-1] == STEPS
