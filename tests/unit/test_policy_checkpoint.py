"""What is checked of pushed weights before the engine sees them."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from services.policy_server.checkpoint import Layout, check_digest, read_shapes
from shared.problems import ProblemError
from shared.weights_digest import digest_of_folder

TENSORS = {
    "model.embed_tokens.weight": np.arange(12, dtype=np.float32).reshape(4, 3),
    "model.norm.weight": np.ones(3, dtype=np.float32),
}


def model_folder(folder: Path, *, tied: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(TENSORS, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    return folder


def test_the_same_layout_fits_however_it_is_split_into_files(tmp_path: Path) -> None:
    layout = Layout.of_model(model_folder(tmp_path / "model"))
    parts = tmp_path / "parts"
    parts.mkdir()
    for place, (name, tensor) in enumerate(TENSORS.items()):
        save_file({name: tensor}, parts / f"model-{place}.safetensors")
    layout.check(read_shapes(parts))
    check_digest(parts, digest_of_folder(tmp_path / "model"))


def test_a_tied_output_layer_may_come_along_or_not_but_one_of_its_own_must(tmp_path: Path) -> None:
    head = {"lm_head.weight": (4, 3)}
    tied = Layout.of_model(model_folder(tmp_path / "tied", tied=True))
    tied.check(tied.shapes | head)
    own = Layout.of_model(model_folder(tmp_path / "own", tied=False))
    with pytest.raises(ProblemError, match=r"unknown lm_head\.weight"):
        own.check(own.shapes | head)
    with pytest.raises(ProblemError, match=r"missing lm_head\.weight"):
        Layout(own.shapes | head, tied=False, bytes=0).check(own.shapes)


def test_every_fault_is_named_up_to_a_few(tmp_path: Path) -> None:
    layout = Layout({f"t{place:02}": (2,) for place in range(20)}, tied=False, bytes=0)
    with pytest.raises(ProblemError) as caught:
        layout.check({"t00": (3,), "other": (1,)})
    assert "missing t01" in caught.value.detail
    assert "and 13 more" in caught.value.detail
    assert caught.value.status == 422


def test_a_file_that_is_no_safetensors_and_an_empty_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as empty:
        read_shapes(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not this")
    with pytest.raises(ProblemError) as unreadable:
        read_shapes(tmp_path)
    assert [caught.value.kind for caught in (empty, unreadable)] == ["weights-not-found", "weights-unreadable"]


def test_one_changed_bit_is_another_digest(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    digest = digest_of_folder(folder)
    check_digest(folder, digest.upper())
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ProblemError, match=digest):
        check_digest(folder, digest)
