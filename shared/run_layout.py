"""The files in a run's folder that more than one part of the system reads or writes."""

from dataclasses import dataclass
from pathlib import Path

CHECKPOINT_PREFIX = "step-"
CREDIT_PREFIX = "step-"
CREDIT_SUFFIX = ".msgpack.zst"


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where they lie."""

    path: Path

    @property
    def job(self) -> str:
        """The run's id, which is also its job's id in Redis."""
        return self.path.name

    @property
    def recipe(self) -> Path:
        """The recipe with every default spelled out."""
        return self.path / "recipe.toml"

    @property
    def metrics(self) -> Path:
        """One JSON object for each training step."""
        return self.path / "metrics.jsonl"

    @property
    def lock_file(self) -> Path:
        """Locked while somebody trains here."""
        return self.path / "run.lock"

    @property
    def checkpoint_folder(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def credit_folder(self) -> Path:
        """Folder of the credit records (`shared.credit_record`), one a training step."""
        return self.path / "credit"

    def credit_record(self, step: int) -> Path:
        """The credit record of a training step, which need not be there."""
        return self.credit_folder / f"{CREDIT_PREFIX}{step:06d}{CREDIT_SUFFIX}"

    def credit_steps(self) -> list[int]:
        """The training steps whose credit records are there, the newest last."""
        files = self.credit_folder.glob(f"{CREDIT_PREFIX}*{CREDIT_SUFFIX}")
        return sorted(int(file.name.removeprefix(CREDIT_PREFIX).removesuffix(CREDIT_SUFFIX)) for file in files)

    def evaluation(self, when: str) -> Path:
        """The report of the evaluation ``before`` or ``after`` training."""
        return self.path / f"evaluation-{when}.json"


def checkpoint_name(version: int) -> str:
    """The name of a checkpoint's folder."""
    return f"{CHECKPOINT_PREFIX}{version:06d}"
