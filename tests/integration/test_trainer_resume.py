"""``kill -9`` at any moment, then the same command: nothing is lost or used twice, and the weights are the same."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from services.trainer.checkpoints import CheckpointStore, read_state
from shared.buffer import GroupReader
from shared.run_layout import RunFiles
from shared.weights_digest import digest_of_folder
from tests.policy_processes import write_tiny_model
from tests.training import (
    add_groups,
    metrics_of,
    start_trainer,
    start_weight_endpoint,
    training_group,
    wait_until_pushed,
    write_recipe,
)

STEPS = 7
KILLS = 4
GROUPS = [training_group(step, index) for step in range(STEPS) for index in range(4)]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainer")
    write_tiny_model(folder / "model")
    # Three steps to a checkpoint, so that a kill loses work; many epochs, so that it hits every phase of a step.
    write_recipe(folder, steps=STEPS, epochs=8, checkpoint_every=3, keep_checkpoints=STEPS)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(redis_url: str, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a run that nobody disturbed."""
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    add_groups(redis_url, "uninterrupted", GROUPS)
    with start_weight_endpoint() as endpoint:
        recipe = model_folder / "recipe.toml"
        with start_trainer("uninterrupted", recipe, run, redis_url, endpoint.url) as trainer:
            assert trainer.wait() == 0, trainer.log.read_text()
    return run / "checkpoints"


def test_killed_again_and_again_it_ends_with_the_weights_of_an_uninterrupted_run(
    redis_url: str, model_folder: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    job, run, recipe = "killed", tmp_path / "run", model_folder / "recipe.toml"
    add_groups(redis_url, job, GROUPS)
    chance = random.Random(7)
    with ExitStack() as stack:
        endpoint = stack.enter_context(start_weight_endpoint())
        for kill in range(KILLS):
            with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
                # Somewhere after an ever later push: in a read, an update, a push, a checkpoint or a release.
                wait_until_pushed(endpoint, kill + 2, len(endpoint.history))
                time.sleep(chance.uniform(0.0, 0.3))
                trainer.kill()
            assert not any(line["step"] >= STEPS for line in metrics_of(run))
        with start_trainer(job, recipe, run, redis_url, endpoint.url) as trainer:
            assert trainer.wait() == 0, trainer.log.read_text()

        # What was learnt twice was learnt alike: a version has one digest, whichever start made it.
        assert len(dict(endpoint.history)) == len(set(endpoint.history)) == STEPS + 1
        assert len(endpoint.history) > STEPS + 1, "the kills made it learn something twice"

    assert _ledger(run / "checkpoints") == [(group.step, group.index) for group in GROUPS]
    assert _ledger(run / "checkpoints") == _ledger(uninterrupted)
    for name in ("step-000003", "step-000006", "step-000007"):
        assert digest_of_folder(run / "checkpoints" / name) == digest_of_folder(uninterrupted / name)
        (optimizer,) = (uninterrupted / name / "trainer").glob("*.safetensors")
        ours, theirs = load_file(optimizer), load_file(run / "checkpoints" / optimizer.relative_to(uninterrupted))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[tensor], theirs[tensor]) for tensor in ours)
    assert [line["step"] for line in metrics_of(run)] == list(range(STEPS))
    ours_kept, theirs_kept = RunFiles(run), RunFiles(uninterrupted.parent)
    assert ours_kept.credit_steps() == theirs_kept.credit_steps() == list(range(STEPS))
    for step in range(STEPS):
        kept = ours_kept.credit_record(step).read_bytes()
        assert kept == theirs_kept.credit_record(step).read_bytes(), "credit of the same groups and weights"
    assert not list(ours_kept.credit_folder.glob(".*"))
    with GroupReader(redis_url, job) as reader:
        assert reader.frontier() == STEPS
        assert reader.held_bytes() == 0


def test_a_start_after_the_end_does_nothing_but_push_the_weights(
    redis_url: str, model_folder: Path, uninterrupted: Path
) -> None:
    run = uninterrupted.parent
    before = metrics_of(run)
    with start_weight_endpoint() as endpoint:
        recipe = model_folder / "recipe.toml"
        with start_trainer("uninterrupted", recipe, run, redis_url, endpoint.url) as trainer:
            assert trainer.wait() == 0, trainer.log.read_text()
    assert endpoint.history == [(STEPS, digest_of_folder(uninterrupted / "step-000007"))]
    assert metrics_of(run) == before


def test_half_a_checkpoint_is_cleared_away(tmp_path: Path) -> None:
    part = tmp_path / ".step-000003.part"
    part.mkdir()
    (part / "model.safetensors").write_bytes(b"half")
    store = CheckpointStore(tmp_path, tokenizer_from=tmp_path, keep=2)
    assert store.latest() is None
    assert not part.exists()


def _ledger(checkpoints: Path) -> list[tuple[int, int]]:
    """Every (training step, group index) that led to the newest checkpoint, by the checkpoints' own account."""
    newest = max(checkpoints.iterdir(), key=lambda path: path.name)
    states = [read_state(newest)]
    while (version := states[0].previous_version) is not None:
        states.insert(0, read_state(checkpoints / f"step-{version:06d}"))
    return [used for state in states for used in state.consumed]
