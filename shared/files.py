"""Files that several processes share: written whole or not at all, locked, and kept in the user's cache folder."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def cache_folder(name: str) -> Path:
    """A folder for ``name`` under ``$GAGPO_CACHE``, or ``~/.cache/gagpo``; created where missing.

    Where the home folder cannot be written to, as in a container with a read-only file system, it is a folder of this
    user under the system's temporary folder.
    """
    if configured := os.environ.get("GAGPO_CACHE"):
        folder = Path(configured).expanduser() / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    try:
        folder = Path.home() / ".cache" / "gagpo" / name
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # no home folder, or one that is read-only
        pass
    folder = Path(tempfile.gettempdir()) / f"gagpo-{os.getuid()}" / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside ``path``; other processes wait. The lock ends with its process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_lock(file: IO[str]) -> bool:
    """Lock an open file if nobody has; False if somebody does. Free again once every process that has it open ended."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that readers see whole or not at all."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def sha256_of(path: Path) -> str:
    """The checksum of a file of any size, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
