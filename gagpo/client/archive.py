"""Unpacking a checkpoint's tar as it comes in, into a folder that appears whole or not at all."""

import contextlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from gagpo.client.errors import JobError

_COPY_BYTES = 1 << 20


@contextlib.contextmanager
def appearing_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` to fill, which takes its name at the end of the block; on an error it is removed.

    Raises `JobError` where something has the name already, and where the disk is full or may not be written to.
    """
    if path.exists():
        raise JobError(f"{path} exists already; remove it, or download to another place")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.partial-", dir=path.parent) as partial:
            content = Path(partial, "content")
            content.mkdir()  # with the permissions of an ordinary folder, which a temporary one does not have
            yield content
            content.rename(path)
    except OSError as error:
        raise JobError(f"cannot write {path}: {error.strerror}. Nothing was kept") from error


def unpack(source: BinaryIO, folder: Path) -> int:
    """Unpack an uncompressed tar into an empty folder; the bytes of its files.

    Raises `JobError` for a damaged archive, and for one that has anything but files and folders below the folder: it
    comes over a network, and neither links nor names that lead elsewhere are of any use to a checkpoint.
    """
    total = 0
    try:
        with tarfile.open(fileobj=source, mode="r|", bufsize=_COPY_BYTES) as archive:
            for member in archive:
                total += _unpack_member(archive, member, folder)
    except tarfile.TarError as error:
        raise JobError(f"the archive is damaged ({error}); nothing was kept. Download it once more") from error
    return total


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> int:
    target = folder / _safe_name(member)
    try:
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        content = archive.extractfile(member)
        assert content is not None, "a regular file has content"
        with target.open("xb") as file:
            shutil.copyfileobj(content, file, _COPY_BYTES)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refused(member, "has the name of another") from error
    return member.size


def _safe_name(member: tarfile.TarInfo) -> PurePosixPath:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise _refused(member, "leads out of the folder")
    if not (member.isreg() or member.isdir()):
        raise _refused(member, "is neither a file nor a folder")
    return name


def _refused(member: tarfile.TarInfo, reason: str) -> JobError:
    return JobError(f"the archive was refused: its member {member.name!r} {reason}. Nothing was kept")
