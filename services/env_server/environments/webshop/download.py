"""Downloads the official files of WebShop: the set of 1,000 products, or all 1.18 million.

Their authors keep them on Google Drive; the addresses are those of their repository's setup script.
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from services.env_server.environments.download import LOCK_FILE, RemoteFile, fetch, files_at, verify

DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="


class OfficialSet(StrEnum):
    """The two sets there are."""

    SMALL = "small"
    """1,000 products, a few MB."""
    FULL = "full"
    """1.18 million products, about 5 GB."""


_HUMAN = RemoteFile("items_human_ins.json", f"{DRIVE}14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O")
OFFICIAL_FILES = {
    OfficialSet.SMALL: (
        RemoteFile("items_shuffle_1000.json", f"{DRIVE}1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib"),
        RemoteFile("items_ins_v2_1000.json", f"{DRIVE}1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu"),
        _HUMAN,
    ),
    OfficialSet.FULL: (
        RemoteFile("items_shuffle.json", f"{DRIVE}1A2whVgOO0euk5O13n2iYDM0bQRkkRduB"),
        RemoteFile("items_ins_v2.json", f"{DRIVE}1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi"),
        _HUMAN,
    ),
}


def official_files(which: OfficialSet, mirror: str | None = None) -> Sequence[RemoteFile]:
    """The files of a set, from their authors or from a folder with the same names on a server of your own."""
    files = OFFICIAL_FILES[which]
    return files_at(mirror, files) if mirror else files


def download_official(out: Path, files: Sequence[RemoteFile], *, backoff_s: float = 1.0) -> list[str]:
    """Fetch what is missing of a set into ``out`` and check all of it; returns what happened, a line each.

    A transfer that breaks off is continued, also by a later call. Files that lie in ``out`` already are not fetched
    again, however they came there. Raises `EnvironmentDataError` that says what went wrong and what to do.
    """
    remedy = (
        f"Google Drive lets only so many people fetch a file in a day: try again tomorrow, or open the address in a "
        f"browser and put the file into {out} as {' and '.join(file.name for file in files)} (docs/data.md has the "
        "addresses), or take it from a mirror with --mirror URL; or shop among invented products instead: "
        "`gagpo data generate webshop --out DIR`"
    )
    return [verify(fetch(file, out, remedy, backoff_s=backoff_s), out / LOCK_FILE) for file in files]
