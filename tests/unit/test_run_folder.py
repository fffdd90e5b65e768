"""Which folder a run gets: an unfinished one of the same recipe, else a new one."""

from pathlib import Path

import pytest

from gagpo.training.run_folder import RunFolderError, claim_run_folder
from shared.recipe import Recipe, parse_recipe


def _recipe(*overrides: str) -> Recipe:
    text = 'name = "tiny"\nseed = 3\n[model]\npath = "small"\n[[environments]]\nname = "alfworld"\n'
    return parse_recipe(text, "test", Path("/somewhere"), overrides)


def test_the_same_recipe_goes_on_in_its_unfinished_run(tmp_path: Path) -> None:
    first = claim_run_folder(_recipe(), tmp_path)
    assert first.path.name == "tiny-s3"
    assert claim_run_folder(_recipe(), tmp_path) == first


def test_a_complete_run_is_left_alone(tmp_path: Path) -> None:
    claim_run_folder(_recipe(), tmp_path).summary.write_text("{}")
    assert claim_run_folder(_recipe(), tmp_path).path.name == "tiny-s3-2"


@pytest.mark.parametrize("other", ["rollout.group_size=4", "training.steps=7"])
def test_another_recipe_gets_another_folder_and_cannot_take_a_named_one(tmp_path: Path, other: str) -> None:
    claim_run_folder(_recipe(), tmp_path)
    assert claim_run_folder(_recipe(other), tmp_path).path.name == "tiny-s3-2"
    with pytest.raises(RunFolderError, match="begun with another recipe"):
        claim_run_folder(_recipe(other), tmp_path, "tiny-s3")


def test_a_run_of_a_release_with_other_keys_is_not_this_run(tmp_path: Path) -> None:
    folder = claim_run_folder(_recipe(), tmp_path)
    folder.recipe.write_text(folder.recipe.read_text() + "\n[bygone]\nkey = 1\n")
    assert claim_run_folder(_recipe(), tmp_path).path.name == "tiny-s3-2"


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path) -> None:
    folder = claim_run_folder(_recipe(), tmp_path)
    with folder.lock(), pytest.raises(RunFolderError, match="another process"):
        folder.lock()
