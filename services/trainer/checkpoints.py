"""Checkpoints: the model as Hugging Face safetensors with its tokenizer, and beside it what training needs to go on.

    step-000010/model.safetensors, config.json, tokenizer…      loads with ``AutoModelForCausalLM.from_pretrained``
    step-000010/trainer/state.json, tensors.safetensors         optimizer moments, random state, consumed groups

Written under another name and renamed, so a checkpoint is whole or not there. No pickle in it.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from pydantic import JsonValue
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

_PREFIX = "step-"
_TOKENIZER_PATTERNS = (
    "tokenizer*",
    "special_tokens_map.json",
    "vocab*",
    "merges.txt",
    "chat_template*",
    "added_tokens.json",
)


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What a checkpoint says besides its tensors."""

    version: int
    """Training steps done, which is the policy version; the next training step to consume."""
    consumed: list[tuple[int, int]]
    """(training step, group index) of every group used since the checkpoint before this one."""
    previous_version: int | None = None
    """The version of the checkpoint before this one; None for the first."""
    elapsed_s: float = 0.0
    """Seconds of training so far, over all starts."""
    metrics: dict[str, JsonValue] = field(default_factory=dict)
    """The metrics of the last training step, which may not have reached the log."""


class CheckpointStore:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, tokenizer_from: Path, keep: int) -> None:
        """``tokenizer_from`` is the folder of the initial model, whose tokenizer goes along unchanged."""
        self._folder = folder
        self._tokenizer_from = tokenizer_from
        self._keep = keep
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*.part"):  # of a trainer that was killed while writing
            shutil.rmtree(leftover)

    def save(self, model: PreTrainedModel, optimizer: torch.optim.Optimizer, state: TrainerState) -> Path:
        """Write a checkpoint, then remove the oldest ones beyond ``keep``."""
        target = self._folder / f"{_PREFIX}{state.version:06d}"
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        model.save_pretrained(part, safe_serialization=True)
        for pattern in _TOKENIZER_PATTERNS:
            for file in self._tokenizer_from.glob(pattern):
                shutil.copy2(file, part / file.name)
        trainer = part / "trainer"
        trainer.mkdir()
        save_file(_tensors(model, optimizer), trainer / "tensors.safetensors")
        (trainer / "state.json").write_text(json.dumps(asdict(state)))
        _to_disk(part)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        for old in self.all()[: -self._keep]:
            shutil.rmtree(old)
        return target

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first."""
        return sorted(self._folder.glob(f"{_PREFIX}*"))

    def latest(self) -> Path | None:
        """The newest checkpoint; None where there is none."""
        return self.all()[-1] if self.all() else None


def read_state(checkpoint: Path) -> TrainerState:
    """What the checkpoint says besides its tensors."""
    fields = json.loads((checkpoint / "trainer" / "state.json").read_text())
    fields["consumed"] = [(step, index) for step, index in fields["consumed"]]
    return TrainerState(**fields)


def restore(checkpoint: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer's and torch's random state back. ``model`` was loaded from the same checkpoint."""
    tensors = load_file(checkpoint / "trainer" / "tensors.safetensors")
    torch.set_rng_state(tensors["rng"])
    for name, parameter in model.named_parameters():
        moments = {
            key: tensors[f"{key}/{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}/{name}" in tensors
        }
        if moments:
            optimizer.state[parameter] = moments


def _tensors(model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    tensors = {"rng": torch.get_rng_state()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value.contiguous()
    return tensors


def _to_disk(folder: Path) -> None:
    """Make sure that everything in the folder survives a power failure."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
