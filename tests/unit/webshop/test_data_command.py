"""WebShop's data from the command line, and downloads from a server that behaves like Google Drive."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.download import LOCK_FILE, RemoteFile
from services.env_server.environments.webshop.__main__ import app
from services.env_server.environments.webshop.download import OfficialSet, download_official, official_files
from tests.data_paths import real_data
from tests.file_server import Server, serving

CONFIRM = """<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title>
<style>.a { color: red }</style></head><body><p>Too large to scan.</p>
<form id="download-form" action="/big" method="get"><input type="submit" value="Download anyway">
<input type="hidden" name="id" value="x y"><input type="hidden" name="confirm" value="t"></form></body></html>"""
QUOTA = "<html><head><script>var x</script></head><p>Too many users have viewed this file recently.</p></html>"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)


def shop_command(*arguments: str | Path) -> str:
    """What the command prints. Raises whatever it does."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def release() -> Server:
    """The small set, with something in each file."""
    names = [file.name for file in official_files(OfficialSet.SMALL)]
    return Server({name: json.dumps([name] * 500).encode() for name in names})


def test_a_shop_is_generated_and_told_about(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop_command("generate", "--products", "30", "--seed", "2", "--style", "simple", "--out", shop)
    told = shop_command("info", shop, "--verify")
    assert told.startswith(f"generated catalogue in {shop}\n  30 products, ")
    assert "match their checksums" in told
    damaged = shop / "prices"
    damaged.write_bytes(bytes(damaged.stat().st_size))
    with pytest.raises(EnvironmentDataError, match=f"{damaged}: the checksum differs"):
        shop_command("info", shop, "--verify")


def test_recorded_files_are_built_by_hand(tmp_path: Path) -> None:
    told = shop_command("build", real_data("webshop"), "--out", tmp_path / "shop")
    assert "6,910 synthetic goals" in told
    assert "sha256 of goals.json.xz: " in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--out", "x"], "name a folder with product files, or --products and --attributes"),
        (["build", "here", "--products", "p", "--out", "x"], "name either the folder here or --products"),
        (["build", ".", "--out", "x"], ". holds no product files"),
        (["info", "gone"], "WEBSHOP_DATA: gone does not exist"),
        (["generate", "--style", "odd", "--out", "x"], "style: unknown 'odd'"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvironmentDataError, match=f"^{re.escape(message)}"):
        shop_command(*arguments)


def test_errors_of_the_whole_command_are_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gagpo", "data", "build", "webshop", str(tmp_path), "--out", str(tmp_path / "x")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert told.returncode == 1
    assert told.stderr.startswith(f"error: {tmp_path} holds no product files (items_shuffle*.json with")
    assert told.stderr.count("\n") == 1


# --- downloads ---


def test_a_download_that_breaks_off_is_continued_and_checked(release: Server, tmp_path: Path) -> None:
    with serving(release):
        release.cuts = 2
        files = official_files(OfficialSet.SMALL, release.address)
        report = download_official(tmp_path, files, backoff_s=0.01)
        assert release.ranges == ["bytes=1000-", "bytes=2000-"]
        assert [line.partition(":")[0] for line in report] == list(release.files)
        release.asked.clear()
        assert all("matches" in line for line in download_official(tmp_path, files))
        assert release.asked == []
    assert {name: (tmp_path / name).read_bytes() for name in release.files} == release.files
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([LOCK_FILE, *release.files])


def test_the_form_before_a_large_file_is_filled_in(tmp_path: Path) -> None:
    drive = Server({"big": b"[1, 2]" * 500, "download": b""})
    drive.pages["download?id=1"] = CONFIRM
    with serving(drive):
        drive.cuts = 1
        download_official(tmp_path, [RemoteFile("items.json", f"{drive.address}/download?id=1")], backoff_s=0.01)
    assert (tmp_path / "items.json").read_bytes() == drive.files["big"]
    assert drive.asked == ["download?id=1", "big?id=x+y&confirm=t"] * 2
    assert drive.ranges == ["bytes=1000-"]


def test_a_page_in_place_of_the_file_is_quoted_and_not_kept(tmp_path: Path) -> None:
    drive = Server({})
    drive.pages |= {"quota": QUOTA, "again": CONFIRM, "big?id=x+y&confirm=t": CONFIRM}
    with serving(drive):
        for path, message in (
            ("quota", "which says: 'Too many users have viewed this file recently.'.*try again tomorrow.*--mirror"),
            ("again", "asks again and again"),
        ):
            with pytest.raises(EnvironmentDataError, match=message):
                download_official(tmp_path, [RemoteFile("items.json", f"{drive.address}/{path}")])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_differs_from_the_recorded_checksum_is_refused(release: Server, tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text(json.dumps({"items_ins_v2_1000.json": "0" * 64}), "utf-8")
    with serving(release), pytest.raises(EnvironmentDataError, match=r"items_ins_v2_1000.json has sha256 .* says 0000"):
        download_official(tmp_path, official_files(OfficialSet.SMALL, release.address))
    assert not (tmp_path / "items_ins_v2_1000.json").exists()


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    files = official_files(OfficialSet.FULL, "http://127.0.0.1:9")
    with pytest.raises(EnvironmentDataError, match=r"cannot download items_shuffle.json .*gagpo data generate webshop"):
        download_official(tmp_path, files, backoff_s=0.001)


def test_the_command_downloads_from_a_mirror(release: Server, tmp_path: Path) -> None:
    with serving(release):
        told = shop_command("download", "--small", "--out", tmp_path / "files", "--mirror", release.address)
    assert f"gagpo data build webshop {tmp_path / 'files'} --out DIR" in told
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == sorted([LOCK_FILE, *release.files])
