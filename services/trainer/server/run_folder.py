"""The files of a job."""

import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from shared.recipe import Recipe, save_recipe
from shared.run_layout import CHECKPOINT_PREFIX, RunFiles, checkpoint_name
from shared.schemas.job import Checkpoint
from shared.telemetry import readable

LAST_LINES = 12
_LAST_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class RunFolder(RunFiles):
    """``<runs>/<job id>``."""

    @property
    def log(self) -> Path:
        """What the training processes say."""
        return self.path / "logs" / "trainer.log"

    @property
    def evaluation_log(self) -> Path:
        """What the evaluations say."""
        return self.path / "logs" / "evaluation.log"

    def prepare(self, recipe: Recipe) -> None:
        """Make the folder and write the recipe."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        save_recipe(recipe, self.recipe)

    def remove(self) -> None:
        """Delete everything, if there is anything. It is out of the way at once, whatever becomes of the deletion."""
        if self.path.exists():
            doomed = self.path.with_name(f".deleted-{self.job}-{secrets.token_hex(4)}")
            self.path.rename(doomed)
            shutil.rmtree(doomed)

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint, the newest last."""
        found = [
            one for folder in sorted(self.checkpoint_folder.glob(f"{CHECKPOINT_PREFIX}*")) for one in _shown(folder)
        ]
        return sorted(found, key=lambda checkpoint: checkpoint.version)

    def checkpoint(self, version: int) -> Path:
        """The folder of a checkpoint, which need not be there."""
        return self.checkpoint_folder / checkpoint_name(version)


def last_words(log: Path, since: int) -> str:
    """The last lines of a log behind byte ``since``."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since, size - _LAST_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(readable(line) for line in text.splitlines()[-LAST_LINES:])


def size_of(log: Path) -> int:
    """Bytes of a log so far; 0 where there is none."""
    return log.stat().st_size if log.exists() else 0


def _shown(folder: Path) -> Iterable[Checkpoint]:
    """Nothing for a checkpoint that is removed while this looks: the trainer keeps only the newest ones."""
    try:
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        made = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
        yield Checkpoint(version=int(folder.name.removeprefix(CHECKPOINT_PREFIX)), bytes=sum(sizes), created_at=made)
    except FileNotFoundError:
        return
