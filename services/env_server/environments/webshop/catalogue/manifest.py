"""``catalogue.json``: what a catalogue holds, where that came from, and how to tell that it is whole."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from tqdm import tqdm

from services.env_server.environments.base import EnvironmentDataError
from shared.files import sha256_of

FILE_NAME = "catalogue.json"
FORMAT = 1
"""Raised whenever a catalogue of an earlier version could not be read any more."""
REMEDY = (
    "remove the folder and make it anew: `gagpo data build webshop` or `gagpo data generate webshop` "
    "(a catalogue in the cache is made anew by itself)"
)


class FileEntry(BaseModel):
    """One file of the catalogue."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: int
    sha256: str


class Manifest(BaseModel):
    """The whole of ``catalogue.json``, which is written last: a folder without it is no catalogue."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1]
    kind: Literal["generated", "recorded", "official"]
    """Where the products came from."""
    products: int
    goals: Mapping[str, int]
    """Number of goals by kind."""
    digest: str
    """SHA-256 over products, prices and goals, not over how they are stored or indexed."""
    provenance: Mapping[str, str | int]
    """For people: source files and their checksums, seeds, versions."""
    files: Mapping[str, FileEntry]
    """By path relative to the folder, ``/``-separated."""


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a catalogue, all of whose files have the size that it says.

    Raises `EnvironmentDataError` that names the file that is missing, foreign or cut short.
    """
    path = folder / FILE_NAME
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise EnvironmentDataError(f"{folder} is not a WebShop catalogue: it has no {FILE_NAME}; {REMEDY}") from None
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'content'}: {e['msg']}" for e in error.errors()[:3])
        raise EnvironmentDataError(
            f"{path} is not a catalogue that this version reads (format {FORMAT}): {why}; {REMEDY}"
        ) from error
    for name, entry in manifest.files.items():
        file = folder / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry.size:
            state = "is missing" if size is None else f"has {size:,} bytes instead of {entry.size:,}"
            raise EnvironmentDataError(f"{file} {state}, so the catalogue is damaged; {REMEDY}")
    return manifest


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Read every file and compare checksums. Raises `EnvironmentDataError` that names all files that differ."""
    actual = describe_files(folder, manifest.files)
    if damaged := [str(folder / name) for name, entry in manifest.files.items() if actual[name] != entry]:
        raise EnvironmentDataError(f"{', '.join(damaged)}: the checksum differs from {FILE_NAME}'s; {REMEDY}")


def describe_files(folder: Path, names: Iterable[str]) -> dict[str, FileEntry]:
    """Size and checksum of each file."""
    entries = {}
    with tqdm(desc="checksums", unit="B", unit_scale=True, delay=2) as bar:
        for name in names:
            path = folder / name
            entries[name] = FileEntry(size=path.stat().st_size, sha256=sha256_of(path))
            bar.update(entries[name].size)
    return entries
