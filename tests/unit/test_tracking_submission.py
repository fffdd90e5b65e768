"""A trainer service refuses a job whose trackers won't do before it queues it."""

from pathlib import Path

import pytest

from services.trainer.server.submission import read_recipe
from shared.problems import ProblemError
from shared.recipe import load_document
from tests.training import write_recipe


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["tracking.wandb = true"], "tracking.wandb = True: the package wandb is not installed here"),
        (["tracking.mlflow = true"], "tracking.mlflow_uri: needed with mlflow = true"),
        (
            ["tracking.mlflow = true", "tracking.mlflow_uri = 'file:///etc/mlflow'"],
            "a folder of the trainer's machine is not a client's to name",
        ),
        (["tracking.mlflow_uri = 'https://me:secret@example.org'"], "MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_a_tracker_that_will_not_do_is_a_fault_of_the_recipe(
    overrides: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ProblemError) as caught:
        read_recipe(load_document(write_recipe(tmp_path), overrides))
    assert caught.value.status == 422 and said in caught.value.detail
    assert "secret" not in caught.value.detail
