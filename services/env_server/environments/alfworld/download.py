"""Downloads the official ALFWorld release: resumable, checksummed, all or nothing.

Two of the release's archives are needed: the trajectories, for task types and what people wrote, and the games, which
hold the PDDL problems themselves. The publisher gives no checksums, so the sha256 of a first download is recorded in
``downloads.lock.json`` and later downloads must match it; copy that file to another machine to verify there.
"""

import hashlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import httpx
from tqdm import tqdm

from services.env_server.environments.alfworld.official_layout import GAME_FILE, TRAJECTORY_FILE, OfficialLayout
from services.env_server.environments.base import EnvironmentDataError
from shared.files import write_atomically

RELEASES = "https://github.com/alfworld/alfworld/releases/download"
LOCK_FILE = "downloads.lock.json"
DATA_FOLDER = "json_2.1.1"
ARCHIVE_ROOT = "json_2.1."
"""Both archives hold one folder whose name starts so; their contents are merged into `DATA_FOLDER`."""
TIMEOUT_S = 30.0
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Archive:
    """One file of the release."""

    name: str
    url: str


OFFICIAL_ARCHIVES = (
    Archive("json_2.1.1_json.zip", f"{RELEASES}/0.2.2/json_2.1.1_json.zip"),
    Archive("json_2.1.2_tw-pddl.zip", f"{RELEASES}/0.4.0/json_2.1.2_tw-pddl.zip"),
)


def archives_at(mirror: str) -> tuple[Archive, ...]:
    """The same archives under another address, such as a folder on a server of your own."""
    return tuple(Archive(archive.name, f"{mirror.rstrip('/')}/{archive.name}") for archive in OFFICIAL_ARCHIVES)


def download_dataset(
    out: Path, archives: Sequence[Archive] = OFFICIAL_ARCHIVES, *, keep_archives: bool = False, backoff_s: float = 1.0
) -> list[str]:
    """Fetch and unpack the release into ``out/json_2.1.1`` and return what happened, a line each.

    A transfer that breaks off is continued, also by a later call. Archives that already lie in ``out/downloads`` are
    not fetched again, however they came there. Raises `EnvironmentDataError` that says what went wrong and what to do.
    """
    target = out / DATA_FOLDER
    if target.exists():
        if OfficialLayout(target, "official").index().splits:
            return [f"{target} is complete already: nothing to do (remove it to start anew)"]
        raise EnvironmentDataError(f"{target} exists but holds no playable game: remove it and run this again")
    folder = out / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    report: list[str] = []
    for archive in archives:
        if not (folder / archive.name).is_file():
            _fetch(archive, folder, backoff_s)
        report.append(_verify(folder / archive.name, out / LOCK_FILE))
    unpack_archives([folder / archive.name for archive in archives], target)
    if not keep_archives:
        shutil.rmtree(folder)
    return report


def _fetch(archive: Archive, folder: Path, backoff_s: float) -> None:
    """Fetch one archive, continuing what an earlier attempt left."""
    failure = ""
    with httpx.Client(timeout=TIMEOUT_S, follow_redirects=True) as client:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(backoff_s * 2 ** (attempt - 1))
            try:
                _transfer(client, archive, folder)
                return
            except httpx.HTTPStatusError as error:
                failure = f"the server answered {error.response.status_code}"
                if error.response.status_code < 500:
                    break
            except (httpx.TransportError, _ShortTransferError) as error:
                failure = str(error) or type(error).__name__
    kept = _part(folder, archive).stat().st_size if _part(folder, archive).exists() else 0
    raise EnvironmentDataError(
        f"cannot download {archive.url}: {failure}. {kept:,} bytes are kept and the next run continues from there. "
        f"Without a network here: download {' and '.join(a.name for a in OFFICIAL_ARCHIVES)} elsewhere (docs/data.md "
        f"has the addresses), put them into {folder}, and run this again; "
        "or play generated games instead: `gagpo data generate alfworld --out DIR`"
    )


class _ShortTransferError(Exception):
    """The connection ended before all bytes had come."""


def _transfer(client: httpx.Client, archive: Archive, folder: Path) -> None:
    """One request for what is still missing; the archive gets its name once it is whole."""
    part, tag_file = _part(folder, archive), folder / f"{archive.name}.etag"
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag_file.exists():
            # The server sends everything anew if the file behind the address has changed since.
            headers["If-Range"] = tag_file.read_text("utf-8")
    with client.stream("GET", archive.url, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if response.headers.get("Content-Range", "").rpartition("/")[2] != str(have):
                part.unlink()
                raise _ShortTransferError("what was kept does not fit the file on the server; it is fetched anew")
            part.rename(folder / archive.name)
            return
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        start = have if resumed else 0
        if tag := response.headers.get("ETag"):
            tag_file.write_text(tag, "utf-8")
        length = response.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as file, _bytes_bar(archive.name, start, total) as bar:
            # No chunk size: with one, what came before a break would be lost in the buffer.
            for chunk in response.iter_raw():
                file.write(chunk)
                bar.update(len(chunk))
    if total is not None and part.stat().st_size != total:
        raise _ShortTransferError(f"the connection ended after {part.stat().st_size:,} of {total:,} bytes")
    tag_file.unlink(missing_ok=True)
    part.rename(folder / archive.name)


def _part(folder: Path, archive: Archive) -> Path:
    return folder / f"{archive.name}.part"


def _bytes_bar(name: str, start: int, total: int | None) -> "tqdm[NoReturn]":
    return tqdm(desc=name, initial=start, total=total, unit="B", unit_scale=True, unit_divisor=1024)


def _verify(path: Path, lock_path: Path) -> str:
    """Check an archive against the lock file, or record it there; the line that says which of the two it was."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
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


def unpack_archives(paths: Sequence[Path], target: Path) -> None:
    """Merge the games and trajectories of the archives into ``target``, which appears only when it is complete."""
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        for path in paths:
            try:
                _unpack(path, partial)
            except zipfile.BadZipFile as error:
                path.unlink()
                raise EnvironmentDataError(f"{path} is damaged ({error}): it was removed, run this again") from error
        if not partial.is_dir():
            raise EnvironmentDataError(f"no {GAME_FILE} or {TRAJECTORY_FILE} in {', '.join(p.name for p in paths)}")
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith((GAME_FILE, TRAJECTORY_FILE))]
        for info in tqdm(members, desc=f"unpacking {path.name}", unit="file"):
            parts = Path(info.filename).parts
            inner = parts[1:] if parts[0].startswith(ARCHIVE_ROOT) else parts
            if ".." in inner or Path(*inner).is_absolute():
                raise EnvironmentDataError(f"{path.name} holds {info.filename}, which would land outside of {folder}")
            destination = folder.joinpath(*inner)
            destination.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, destination.open("wb") as file:
                shutil.copyfileobj(source, file)
