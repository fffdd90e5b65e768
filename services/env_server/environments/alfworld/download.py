"""Downloads the official ALFWorld release: resumable, checksummed, all or nothing.

Two of the release's archives are needed: the trajectories, for task types and what people wrote, and the games, which
hold the PDDL problems themselves.
"""

import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from services.env_server.environments.alfworld.official_layout import GAME_FILE, TRAJECTORY_FILE, OfficialLayout
from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.download import LOCK_FILE, RemoteFile, fetch, files_at, verify

RELEASES = "https://github.com/alfworld/alfworld/releases/download"
DATA_FOLDER = "json_2.1.1"
ARCHIVE_ROOT = "json_2.1."
"""Both archives hold one folder whose name starts so; their contents are merged into `DATA_FOLDER`."""


OFFICIAL_ARCHIVES = (
    RemoteFile("json_2.1.1_json.zip", f"{RELEASES}/0.2.2/json_2.1.1_json.zip"),
    RemoteFile("json_2.1.2_tw-pddl.zip", f"{RELEASES}/0.4.0/json_2.1.2_tw-pddl.zip"),
)


def archives_at(mirror: str) -> tuple[RemoteFile, ...]:
    """The same archives under another address, such as a folder on a server of your own."""
    return files_at(mirror, OFFICIAL_ARCHIVES)


def download_dataset(
    out: Path,
    archives: Sequence[RemoteFile] = OFFICIAL_ARCHIVES,
    *,
    keep_archives: bool = False,
    backoff_s: float = 1.0,
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
    remedy = (
        f"Without a network here: download {' and '.join(a.name for a in OFFICIAL_ARCHIVES)} elsewhere (docs/data.md "
        f"has the addresses), put them into {folder}, and run this again; "
        "or play generated games instead: `gagpo data generate alfworld --out DIR`"
    )
    report = [verify(fetch(archive, folder, remedy, backoff_s=backoff_s), out / LOCK_FILE) for archive in archives]
    unpack_archives([folder / archive.name for archive in archives], target)
    if not keep_archives:
        shutil.rmtree(folder)
    return report


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
