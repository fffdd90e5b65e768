"""``metrics.jsonl``: the run's own record of its training steps, from which trackers are filled up."""

import json
from collections.abc import Sequence
from pathlib import Path

from services.trainer.metrics import Metrics
from shared.files import write_atomically


class MetricsFile:
    """One line a training step, whatever happened to the trainer in between."""

    def __init__(self, file: Path, resume_at: int, last: Metrics) -> None:
        """Drop the lines from step ``resume_at`` on, and add ``last``, the step before, if its line is missing."""
        lines = [line for line in _lines(file) if int(str(line["step"])) < resume_at]
        if last and (not lines or lines[-1]["step"] != last["step"]):
            lines.append(last)
        write_atomically(file, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self.earlier: Sequence[Metrics] = lines
        """The training steps that were there already."""
        self._stream = file.open("a")

    def write(self, metrics: Metrics) -> None:
        """Append a line; a reader sees it at once."""
        self._stream.write(json.dumps(metrics) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def _lines(file: Path) -> Sequence[Metrics]:
    if not file.exists():
        return []
    # A line without its end is one that a killed trainer was still writing.
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
