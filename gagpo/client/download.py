"""Downloading a checkpoint over connections that get lost."""

import contextlib
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from typing_extensions import Buffer

from gagpo.client.archive import appearing_folder, unpack
from gagpo.client.errors import JobError
from gagpo.client.following import Reconnecting

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far, and of how many; None where the server does not say."""

_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 5


class AbandonedError(Exception):
    """The download is not wanted any more."""


class _StartOverError(Exception):
    """The archive cannot be gone on with where the connection was lost."""


@dataclass(frozen=True, slots=True)
class Archive:
    """What to download."""

    path: str
    """Path of the tar on the server."""
    file_bytes: int | None
    """Bytes of the files in it, where they are known."""
    folder: Path
    """Where they go."""


class _Received(io.RawIOBase):
    """An archive's bytes, over as many connections as it takes."""

    def __init__(
        self, http: httpx.Client, path: str, line: Reconnecting, progress: Progress, abandoned: threading.Event
    ) -> None:
        self._http = http
        self._path = path
        self._line = line
        self._progress = progress
        self._abandoned = abandoned
        self._received = 0
        self._total: int | None = None
        self._tag: str | None = None
        self._chunk = memoryview(b"")
        self._chunks = self._connections()

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill as much of the buffer as one chunk does; 0 at the end."""
        if not self._chunk:
            self._chunk = memoryview(next(self._chunks, b""))
        target = memoryview(buffer)
        taken = min(len(target), len(self._chunk))
        target[:taken] = self._chunk[:taken]
        self._chunk = self._chunk[taken:]
        return taken

    def _connections(self) -> Iterator[bytes]:
        while True:
            lost: httpx.TransportError | None = None
            try:
                with self._http.stream("GET", self._path, headers=self._headers()) as response:
                    if not response.is_success:
                        response.read()
                    if self._line.answered(response):
                        self._begin(response)
                        for chunk in response.iter_bytes():
                            self._count(len(chunk))
                            yield chunk
                        return
            except httpx.TransportError as error:
                lost = error
            if self._abandoned.wait(self._line.lost(lost)):
                raise AbandonedError

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "application/x-tar", "accept-encoding": "identity"}
        if self._received and self._tag is not None:
            headers |= {"range": f"bytes={self._received}-", "if-range": self._tag}
        return headers

    def _begin(self, response: httpx.Response) -> None:
        if self._received and response.status_code != httpx.codes.PARTIAL_CONTENT:
            raise _StartOverError
        if not self._received:
            length = response.headers.get("content-length")
            self._total = None if length is None else int(length)
            self._tag = response.headers.get("etag")

    def _count(self, size: int) -> None:
        self._received += size
        self._line.progress()
        if self._abandoned.is_set():
            raise AbandonedError
        self._progress(self._received, self._total)


def download_archive(
    http: httpx.Client, archive: Archive, line: Reconnecting, progress: Progress, abandoned: threading.Event
) -> None:
    """Fetch an archive and unpack it as its folder, which appears whole or not at all.

    A lost connection is gone on with where the server allows it, and the download begun anew where it does not. Raises
    `JobError`, and `AbandonedError` soon after ``abandoned`` is set.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(_StartOverError), appearing_folder(archive.folder) as folder:
            received = io.BufferedReader(_Received(http, archive.path, line, progress, abandoned), _CHUNK_BYTES)
            file_bytes = unpack(received, folder)
            # Only once what pads the archive's end is there as well is it known to be whole.
            while received.read(_CHUNK_BYTES):
                pass
            if archive.file_bytes not in (None, file_bytes):
                raise JobError(
                    f"the archive holds {file_bytes} bytes of files and the checkpoint {archive.file_bytes}: it was "
                    "written anew meanwhile. Nothing was kept; download it once more"
                )
            return
    raise JobError(f"the connection was lost {_ATTEMPTS} times in the middle of {archive.path}; nothing was kept")


def ignore_progress(received: int, total: int | None) -> None:
    """Tell nobody."""
