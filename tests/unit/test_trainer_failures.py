"""What the trainer says of failures that people can mend."""

import errno
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from services.trainer.failures import explained
from services.trainer.worker import FrontierError
from shared.buffer import EvictionPolicyError


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/runs/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc] . PytorchStreamWriter: No space left on device"),
    ],
)
def test_a_full_disk_is_told_with_what_is_safe_and_how_to_go_on(error: Exception, tmp_path: Path) -> None:
    said = explained(error, tmp_path) or ""
    assert said.startswith(f"out of disk: {tmp_path} has ") and "keep_checkpoints" in said
    assert "The last whole checkpoint" in said and "same command again" in said


def test_memory_that_torch_can_not_get_is_told_with_what_takes_less(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)
    for error in (caught.value, MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")):
        said = explained(error, tmp_path) or ""
        assert said.startswith("out of memory: ") and "training.micro_batch_tokens" in said and "gagpo plan" in said
        assert "\n" not in said


def test_errors_that_name_their_remedy_are_said_as_they_are_and_others_keep_their_trace(tmp_path: Path) -> None:
    assert explained(EvictionPolicyError("set noeviction"), tmp_path) == "set noeviction"
    assert explained(FrontierError("bring the folder back"), tmp_path) == "bring the folder back"
    assert explained(ZeroDivisionError("division by zero"), tmp_path) is None
    assert explained(RuntimeError("shapes differ"), tmp_path) is None
