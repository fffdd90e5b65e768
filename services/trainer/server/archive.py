"""A folder as an uncompressed tar that is made while it is sent: no copy on the disk, and any part can be asked for."""

import hashlib
import os
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
"""Two empty blocks end an archive."""


@dataclass(frozen=True, slots=True)
class _Member:
    header: bytes
    file: BinaryIO
    size: int

    @property
    def padding(self) -> int:
        return -self.size % _BLOCK


class FolderArchive:
    """The files of a folder, opened at once: what is removed or replaced afterwards is still sent as it was."""

    def __init__(self, folder: Path, without: str | None = None) -> None:
        """``without`` names a subfolder to leave out. Raises `FileNotFoundError` for a folder that is not there."""
        self._opened = ExitStack()
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        if without is not None:
            paths = [path for path in paths if path.relative_to(folder).parts[0] != without]
        if not paths:
            raise FileNotFoundError(f"no files in {folder}")
        with ExitStack() as opened:
            self._members = [self._member(folder, path, opened) for path in paths]
            self._opened = opened.pop_all()
        headers = hashlib.sha256(b"".join(member.header for member in self._members))
        self.etag = f'"{headers.hexdigest()[:32]}"'
        """Equal for archives of equal names, sizes and times."""
        self.size = sum(len(one.header) + one.size + one.padding for one in self._members) + len(_END)
        """Bytes of the whole archive."""

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def chunks(self, start: int = 0) -> Iterator[bytes]:
        """The archive from byte ``start`` on; closes the files at its end."""
        try:
            for piece, size in self._pieces():
                if start >= size:
                    start -= size
                    continue
                if isinstance(piece, bytes):
                    yield piece[start:]
                else:
                    yield from _read(piece, start, size)
                start = 0
        finally:
            self.close()

    def _pieces(self) -> Iterator[tuple[bytes | BinaryIO, int]]:
        for member in self._members:
            yield member.header, len(member.header)
            yield member.file, member.size
            yield bytes(member.padding), member.padding
        yield _END, len(_END)

    @staticmethod
    def _member(folder: Path, path: Path, opened: ExitStack) -> _Member:
        file = opened.enter_context(path.open("rb"))
        status = os.fstat(file.fileno())
        info = tarfile.TarInfo(path.relative_to(folder).as_posix())
        info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), 0o644
        return _Member(info.tobuf(tarfile.GNU_FORMAT), file, status.st_size)


def _read(file: BinaryIO, start: int, size: int) -> Iterator[bytes]:
    file.seek(start)
    left = size - start
    while left:
        chunk = file.read(min(CHUNK_BYTES, left))
        if not chunk:
            raise OSError(f"{file.name} became shorter while it was sent")
        yield chunk
        left -= len(chunk)
