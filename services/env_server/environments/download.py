"""Downloads of official data: resumable, and checked against what an earlier download of the same file was.

Publishers give no checksums, so the sha256 of a first download is recorded in ``downloads.lock.json`` beside the data,
and later downloads must match it; copy that file to another machine to verify there.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin

import httpx
from tqdm import tqdm

from services.env_server.environments.base import EnvironmentDataError
from shared.files import sha256_of, write_atomically

LOCK_FILE = "downloads.lock.json"
TIMEOUT_S = 30.0
ATTEMPTS = 5
LONGEST_PAGE = 1 << 20
"""Bytes of a page that is read to find out why it came instead of the file."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a release."""

    name: str
    url: str


def files_at(mirror: str, files: Sequence[RemoteFile]) -> tuple[RemoteFile, ...]:
    """The same files under another address, such as a folder on a server of your own."""
    return tuple(RemoteFile(file.name, f"{mirror.rstrip('/')}/{file.name}") for file in files)


def fetch(file: RemoteFile, folder: Path, remedy: str, *, backoff_s: float = 1.0) -> Path:
    """Fetch one file into ``folder``, continuing what an earlier attempt left; does nothing where it is there already.

    Raises `EnvironmentDataError` that says what went wrong and, as ``remedy``, what to do instead.
    """
    target = folder / file.name
    if target.is_file():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    failure = ""
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(backoff_s * 2 ** (attempt - 1))
            try:
                _transfer(client, file, folder)
                return target
            except httpx.HTTPStatusError as error:
                failure = f"the server answered {error.response.status_code}"
                if error.response.status_code < 500:
                    break
            except _PageError as error:
                failure = str(error)
                break
            except (httpx.TransportError, _ShortTransferError) as error:
                failure = str(error) or type(error).__name__
    kept = _part(folder, file).stat().st_size if _part(folder, file).exists() else 0
    raise EnvironmentDataError(
        f"cannot download {file.name} from {file.url}: {failure}. "
        f"{kept:,} bytes are kept and the next run continues from there. {remedy}"
    )


def verify(path: Path, lock_path: Path) -> str:
    """Check a file against the lock file, or record it there; the line that says which of the two it was."""
    sha256 = sha256_of(path)
    lock: dict[str, str] = json.loads(lock_path.read_text("utf-8")) if lock_path.exists() else {}
    known = lock.get(path.name)
    if known is None:
        lock[path.name] = sha256
        write_atomically(lock_path, (json.dumps(lock, indent=2, sort_keys=True) + "\n").encode())
        return f"{path.name}: sha256 {sha256} recorded in {lock_path.name} (the publisher gives none to compare with)"
    if known != sha256:
        path.unlink()
        raise EnvironmentDataError(
            f"{path.name} has sha256 {sha256}, but {lock_path} says {known}: the copy was removed, run it again; "
            "if it happens again, the publisher changed the file: remove its line from there if you trust the change"
        )
    return f"{path.name}: sha256 matches {lock_path.name}"


class _ShortTransferError(Exception):
    """The connection ended before all bytes had come."""


class _PageError(Exception):
    """A page came instead of the file."""


def _transfer(client: httpx.Client, file: RemoteFile, folder: Path) -> None:
    """One request for what is still missing; the file gets its name once it is whole."""
    part, tag_file = _part(folder, file), folder / f"{file.name}.etag"
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag_file.exists():
            # The server sends everything anew if the file behind the address has changed since.
            headers["If-Range"] = tag_file.read_text("utf-8")
    response = _open(client, file.url, headers)
    try:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if response.headers.get("Content-Range", "").rpartition("/")[2] != str(have):
                part.unlink()
                raise _ShortTransferError("what was kept does not fit the file on the server; it is fetched anew")
            part.rename(folder / file.name)
            return
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        start = have if resumed else 0
        if tag := response.headers.get("ETag"):
            tag_file.write_text(tag, "utf-8")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as output, _bytes_bar(file.name, start, total) as bar:
            # No chunk size: with one, what came before a break would be lost in the buffer.
            for chunk in response.iter_raw():
                output.write(chunk)
                bar.update(len(chunk))
    finally:
        response.close()
    if total is not None and part.stat().st_size != total:
        raise _ShortTransferError(f"the connection ended after {part.stat().st_size:,} of {total:,} bytes")
    tag_file.unlink(missing_ok=True)
    part.rename(folder / file.name)


def _open(client: httpx.Client, url: str, headers: dict[str, str]) -> httpx.Response:
    """The response with the file; the caller closes it.

    Google Drive puts a page with a form before files that it cannot scan for viruses: that is filled in once. Raises
    `_PageError` for any other page.
    """
    response = _send(client, url, headers)
    if (form := _form_before_the_file(response)) is not None:
        response = _send(client, form, headers)
        if _form_before_the_file(response) is not None:
            raise _PageError("the server asks again and again to confirm the download")
    return response


def _send(client: httpx.Client, url: str, headers: dict[str, str]) -> httpx.Response:
    return client.send(client.build_request("GET", url, headers=headers), stream=True)


def _form_before_the_file(response: httpx.Response) -> str | None:
    """The address behind the form of a page that came instead of the file; None where the file itself came."""
    if not response.is_success or not response.headers.get("Content-Type", "").startswith("text/html"):
        return None
    page = _Page()
    try:
        for text in response.iter_text():
            page.feed(text)
            if response.num_bytes_downloaded > LONGEST_PAGE:
                break
    finally:
        response.close()
    if page.action is None or not page.fields:
        raise _PageError(f"a web page came instead of the file, which says: {' '.join(page.words)[:300]!r}")
    return str(httpx.URL(urljoin(str(response.url), page.action), params=page.fields))


class _Page(HTMLParser):
    """Collects the hidden fields of a page's form, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.words: list[str] = []
        self._unseen = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = given.get("action") or ""
        elif tag == "input" and given.get("type") == "hidden" and (name := given.get("name")):
            self.fields[name] = given.get("value") or ""
        self._unseen = tag in ("style", "script")

    def handle_endtag(self, tag: str) -> None:
        self._unseen = False

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.words += data.split()


def _part(folder: Path, file: RemoteFile) -> Path:
    return folder / f"{file.name}.part"


def _bytes_bar(name: str, start: int, total: int | None) -> "tqdm[NoReturn]":
    return tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, unit_divisor=1024)
