"""Finds the source files of a catalogue in a folder."""

from pathlib import Path

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.webshop.official import OfficialSource, find_official
from services.env_server.environments.webshop.recorded import RecordedSource, find_recorded

FORMS = "product files (items_shuffle*.json with items_ins_v2*.json, or products*.jsonl[.xz])"
"""What `find_source` looks for, in words for people."""


def find_source(path: Path, processes: int = 1) -> OfficialSource | RecordedSource | None:
    """The source in a folder, or of a recorded product file; None where there is none.

    ``processes`` is how many look for the nouns of official titles.

    Raises `EnvironmentDataError` where it is not clear which files are meant.
    """
    if path.is_file():
        return RecordedSource(path) if path.name.endswith((".jsonl", ".jsonl.xz")) else None
    recorded, official = find_recorded(path), find_official(path, processes)
    if recorded and official:
        raise EnvironmentDataError(
            f"{path} holds both {recorded.file.name} and {official.official.products.name}: keep one of them there"
        )
    return recorded or official
