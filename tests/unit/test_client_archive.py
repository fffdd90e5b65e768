"""Unpacking a downloaded checkpoint: whole or not at all, and never outside of its folder."""

import io
import tarfile
from pathlib import Path

import pytest

from gagpo.client import JobError
from gagpo.client.archive import appearing_folder, unpack


def archive(*members: tarfile.TarInfo | tuple[str, bytes]) -> io.BytesIO:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    written.seek(0)
    return written


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_files_and_folders_come_out_as_they_went_in(tmp_path: Path) -> None:
    content = {"config.json": b"{}", "optimizer/state.bin": bytes(range(256)) * 9000, "empty": b""}
    with appearing_folder(tmp_path / "a" / "policy") as folder:
        total = unpack(archive(special("optimizer", tarfile.DIRTYPE), *content.items()), folder)
        assert not (tmp_path / "a" / "policy").exists(), "it appears only when it is whole"
    assert total == sum(map(len, content.values()))
    assert files_below(tmp_path / "a" / "policy") == content
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["policy"], "nothing else is left"


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (("../evil", b"x"), "leads out of the folder"),
        (("weights/../../evil", b"x"), "leads out of the folder"),
        (("/tmp/evil", b"x"), "leads out of the folder"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "neither a file nor a folder"),
        (special("link", tarfile.LNKTYPE, "../../evil"), "neither a file nor a folder"),
        (special("device", tarfile.CHRTYPE), "neither a file nor a folder"),
        (special("pipe", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (("config.json", b"another"), "has the name of another"),
        (("config.json/below", b"x"), "has the name of another"),
        (special("config.json", tarfile.DIRTYPE), "has the name of another"),
    ],
)
def test_an_archive_that_could_do_harm_is_refused_and_leaves_nothing(
    tmp_path: Path, member: tarfile.TarInfo | tuple[str, bytes], reason: str
) -> None:
    with pytest.raises(JobError, match=reason), appearing_folder(tmp_path / "inner" / "policy") as folder:
        unpack(archive(("config.json", b"{}"), member), folder)
    assert files_below(tmp_path) == {}
    assert not list((tmp_path / "inner").iterdir())


@pytest.mark.parametrize("kept", [0, 700, 1536 + 100])
def test_a_damaged_archive_is_refused_and_leaves_nothing(tmp_path: Path, kept: int) -> None:
    whole = archive(("config.json", b"{}"), ("weights", b"w" * 5000)).getvalue()
    with pytest.raises(JobError, match="damaged"), appearing_folder(tmp_path / "policy") as folder:
        unpack(io.BytesIO(whole[:kept]), folder)
    assert not list(tmp_path.iterdir())


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "mine").write_text("precious")
    with pytest.raises(JobError, match="exists already"), appearing_folder(tmp_path / "policy"):
        raise AssertionError("never begun")
    assert files_below(tmp_path) == {"policy/mine": b"precious"}


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    place = tmp_path / "file" / "policy"
    with pytest.raises(JobError, match=r"cannot write .*/file/policy: File exists"), appearing_folder(place):
        raise AssertionError("never begun")
