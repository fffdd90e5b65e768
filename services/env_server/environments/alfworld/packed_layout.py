"""Games packed as lines of JSON, one xz file a split: ``{train,valid_seen,valid_unseen}.jsonl.xz``.

An xz stream cannot be read from the middle, so the first use unpacks each file once into the cache: every line
compressed by itself, with a table of where it starts. All workers share that.
"""

import hashlib
import json
import lzma
import os
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.env_server.environments.alfworld.dataset_index import DatasetIndex, goal_in_grammar, make_index
from services.env_server.environments.alfworld.game_source import GameSource
from services.env_server.environments.alfworld.official_layout import GameFile
from services.env_server.environments.alfworld.package_files import grammar_for, read_domain
from services.env_server.environments.base import EnvironmentDataError
from shared.files import cache_folder, locked

SUFFIX = ".jsonl.xz"
CACHE_VERSION = 1


class PackedGame(BaseModel):
    """One line: of the current release with ``goal`` and ``problem``, of the older one with the whole ``game``."""

    id: str
    task_type: str
    goal: str = ""
    human_goals: list[str] = []
    walkthrough: list[str] = []
    problem: str = ""
    game: GameFile | None = None


@dataclass(frozen=True, slots=True)
class PackedEntry:
    """Where one line is in the unpacked file."""

    task_id: str
    sha256: str
    """Of the line, without its newline."""
    offset: int
    length: int


class PackedLayout:
    """One or more packed files, each a split named after its file."""

    name = "packed"

    def __init__(self, files: list[Path]) -> None:
        """``files`` end in ``.jsonl.xz``."""
        self._files = {file.name.removesuffix(SUFFIX): file for file in files}

    def index(self) -> DatasetIndex:
        """Every game of every file; quick once the files are unpacked."""
        return make_index(
            (split, entry.task_id, entry.sha256)
            for split, file in self._files.items()
            for entry in _unpacked(file).entries.values()
        )

    def load(self, split: str, task_id: str) -> GameSource:
        """One game. Raises `EnvironmentDataError` where its line is damaged."""
        try:
            line = PackedGame.model_validate_json(_unpacked(self._files[split]).line(task_id))
        except ValidationError as error:
            raise EnvironmentDataError(f"{self._files[split]}: the line of {task_id} is damaged ({error})") from error
        game = line.game or GameFile(
            pddl_domain=read_domain(),
            grammar=grammar_for(line.goal),
            pddl_problem=line.problem,
            walkthrough=line.walkthrough,
        )
        return GameSource(
            task_id=task_id,
            task_type=line.task_type,
            domain=game.pddl_domain,
            grammar=game.grammar,
            problem=game.pddl_problem,
            goal=line.goal or goal_in_grammar(game.grammar),
            human_goals=tuple(line.human_goals),
            walkthrough=tuple(game.walkthrough or ()),
        )


class Unpacked:
    """An unpacked file: lines that can be read in any order, also by several processes at once."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is what `unpack` wrote."""
        table = json.loads((folder / "table.json").read_bytes())
        self.entries = {entry[0]: PackedEntry(*entry) for entry in table}
        self._descriptor = os.open(folder / "lines.bin", os.O_RDONLY)

    def line(self, task_id: str) -> bytes:
        """The line of a task, as JSON."""
        entry = self.entries[task_id]
        return zlib.decompress(os.pread(self._descriptor, entry.length, entry.offset))


@cache
def _unpacked(file: Path) -> Unpacked:
    """The unpacked form of a packed file, made in the cache by whichever process comes first."""
    sha = hashlib.sha256(file.read_bytes()).hexdigest()
    folder = cache_folder("alfworld") / f"packed-v{CACHE_VERSION}-{sha[:32]}"
    with locked(folder):
        if not folder.is_dir():
            unpack(file, folder)
    return Unpacked(folder)


def unpack(file: Path, folder: Path) -> None:
    """Write ``lines.bin`` and ``table.json`` into ``folder``, which appears only when both are complete."""
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    partial.mkdir()
    table: list[tuple[str, str, int, int]] = []
    offset = 0
    try:
        with lzma.open(file, "rb") as lines, (partial / "lines.bin").open("wb") as out:
            for line in lines:
                text = line.rstrip(b"\n")
                packed = zlib.compress(text, 1)
                out.write(packed)
                table.append((json.loads(text)["id"], hashlib.sha256(text).hexdigest(), offset, len(packed)))
                offset += len(packed)
    except (lzma.LZMAError, EOFError, ValueError, KeyError) as error:
        raise EnvironmentDataError(f"{file} is damaged after {len(table)} games ({error!r}): fetch it again") from error
    (partial / "table.json").write_text(json.dumps(table), "utf-8")
    partial.rename(folder)
