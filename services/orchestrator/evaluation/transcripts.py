"""``transcripts.jsonl``: every finished episode a line, so that an interrupted evaluation goes on where it stopped."""

from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import ValidationError

from services.orchestrator.evaluation.report import EvaluationError
from shared.schemas.evaluation import EpisodeReport, Transcript

Place = tuple[int, int]
"""Number of the task, and which of its episodes."""


class Transcripts:
    """An open file of transcripts. What stood in it is in ``finished``; more is appended."""

    def __init__(self, path: Path | None) -> None:
        """Without a path nothing is kept on disk. Raises `EvaluationError` for a file that holds something else."""
        self._path = path
        self._file: IO[bytes] | None = None
        self.finished: dict[Place, EpisodeReport] = {} if path is None else _read(path)

    def __enter__(self) -> Self:
        """Open for appending."""
        if self._path is not None:
            self._file = self._path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        if self._file is not None:
            self._file.close()

    def add(self, transcript: Transcript) -> None:
        """Take note of an episode; its line is with the operating system afterwards, and survives a ``kill -9``."""
        self.finished[transcript.number, transcript.result.sample] = transcript.result
        if self._file is not None:
            self._file.write(f"{transcript.model_dump_json(exclude_none=True)}\n".encode())
            self._file.flush()


def _read(path: Path) -> dict[Place, EpisodeReport]:
    """The episodes in a file, where there is one; a last line that was not finished is cut off."""
    finished: dict[Place, EpisodeReport] = {}
    if not path.exists():
        return finished
    whole = 0
    with path.open("rb+") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                transcript = Transcript.model_validate_json(line)
            except ValidationError as error:
                raise EvaluationError(
                    f"{path}, line {number} is no transcript of this release: move the file away to play it all again"
                ) from error
            finished[transcript.number, transcript.result.sample] = transcript.result
            whole += len(line)
        file.truncate(whole)
    return finished
