"""Checkpoints: the model as Hugging Face safetensors with its tokenizer, and beside it what training needs to go on.

    step-000010/model.safetensors, config.json, tokenizer…      loads with ``AutoModelForCausalLM.from_pretrained``
    step-000010/README.md                                       the model card
    step-000010/adapter/adapter_model.safetensors, …            with LoRA: what the merged weights above were made with
    step-000010/trainer/state.json, *.safetensors               consumed groups, optimizer moments, random state

Written under another name and renamed, so a checkpoint is whole or not there. No pickle in it.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import JsonValue
from transformers import PreTrainedModel

from services.trainer.lora import ADAPTER_FOLDER, has_adapters, save_adapters, save_model
from shared.run_layout import CHECKPOINT_PREFIX, checkpoint_name

CARD = "README.md"
"""In a checkpoint: its model card."""

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
    environment_steps: int = 0
    """Environment steps trained on so far."""
    metrics: dict[str, JsonValue] = field(default_factory=dict)
    """The metrics of the last training step, which may not have reached the log."""


class CheckpointStore:
    """The checkpoints of a run."""

    def __init__(
        self, folder: Path, tokenizer_from: Path, keep: int, card: Callable[[TrainerState], str] | None = None
    ) -> None:
        """``tokenizer_from`` is the folder of the initial model, whose tokenizer goes along unchanged.

        ``card`` writes the text of a checkpoint's model card.
        """
        self._folder = folder
        self._tokenizer_from = tokenizer_from
        self._keep = keep
        self._card = card
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(".*.part"):  # of a trainer that was killed while writing
            shutil.rmtree(leftover)

    def save(self, model: PreTrainedModel, save_optimizer: Callable[[Path], None], state: TrainerState) -> Path:
        """Write a checkpoint, then remove the oldest ones beyond ``keep``.

        ``model`` has all its weights, and ``save_optimizer`` writes the optimizer's state into the folder it is given.
        """
        target = self._folder / checkpoint_name(state.version)
        part = target.with_name(f".{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            self._write(part, model, save_optimizer, state)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)  # on a disk that is full, what is half written would keep it so
            raise
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        for old in self.all()[: -self._keep]:
            shutil.rmtree(old)
        return target

    def _write(
        self, part: Path, model: PreTrainedModel, save_optimizer: Callable[[Path], None], state: TrainerState
    ) -> None:
        save_model(model, part)
        if has_adapters(model):
            save_adapters(model, part / ADAPTER_FOLDER)
        for pattern in _TOKENIZER_PATTERNS:
            for file in self._tokenizer_from.glob(pattern):
                shutil.copy2(file, part / file.name)
        if self._card is not None:
            (part / CARD).write_text(self._card(state))
        trainer = part / "trainer"
        trainer.mkdir()
        save_optimizer(trainer)
        (trainer / "state.json").write_text(json.dumps(asdict(state)))
        _to_disk(part)

    def all(self) -> list[Path]:
        """Every checkpoint, oldest first."""
        return sorted(self._folder.glob(f"{CHECKPOINT_PREFIX}*"))

    def latest(self) -> Path | None:
        """The newest checkpoint; None where there is none."""
        return self.all()[-1] if self.all() else None


def read_state(checkpoint: Path) -> TrainerState:
    """What the checkpoint says besides its tensors."""
    fields = json.loads((checkpoint / "trainer" / "state.json").read_text())
    fields["consumed"] = [(step, index) for step, index in fields["consumed"]]
    return TrainerState(**fields)


def _to_disk(folder: Path) -> None:
    """Make sure that everything in the folder survives a power failure."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
