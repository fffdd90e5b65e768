"""What the trainer service makes of exit statuses, logs and folders."""

import io
import signal
import tarfile
from pathlib import Path

import pytest

from services.trainer.server.archive import FolderArchive
from services.trainer.server.log_file import BLOCK_BYTES, tail_start, whole_lines
from services.trainer.server.sse import sse
from services.trainer.server.supervisor import ending_of
from shared.schemas.job import JobState

COMPLETED = {"state": "completed", "reason": "all training steps are done"}
FAILED = {"state": "failed", "reason": "ValueError: no"}
STOPPED = {"state": "stopped", "reason": "stopped by SIGTERM"}


@pytest.mark.parametrize(
    ("status", "told", "state", "lost", "reason"),
    [
        (0, COMPLETED, JobState.COMPLETED, False, "all training steps are done"),
        (1, FAILED, JobState.FAILED, False, "ValueError: no\nThe end of its log:\nlast"),
        (0, None, JobState.FAILED, False, "the training process ended with exit code 0\nThe end of its log:\nlast"),
        (1, None, JobState.FAILED, True, "the training process ended with exit code 1\nThe end of its log:\nlast"),
        (-signal.SIGKILL, None, JobState.FAILED, True, "the training process was ended by SIGKILL: most often the …"),
        (128 + signal.SIGTERM, STOPPED, JobState.FAILED, True, "the training process was ended by SIGTERM\n…"),
        (-signal.SIGSEGV, COMPLETED, JobState.FAILED, True, "the training process was ended by SIGSEGV\n…"),
    ],
)
def test_how_a_worker_ended_decides_what_becomes_of_its_job(
    status: int, told: dict[str, str] | None, state: JobState, lost: bool, reason: str
) -> None:
    ending = ending_of(status, told, "last")
    assert (ending.state, ending.lost) == (state, lost)
    assert ending.reason.startswith(reason.removesuffix("…"))


def test_an_archive_is_what_tar_would_make_and_can_be_gone_on_with_anywhere(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    contents = {"model.safetensors": bytes(range(256)) * 11, "empty": b"", "trainer/" + "n" * 140: b"x" * 512}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    archive = FolderArchive(tmp_path)
    whole = b"".join(archive.chunks())
    assert len(whole) == archive.size
    with tarfile.open(fileobj=io.BytesIO(whole)) as read:
        found = {member.name: read.extractfile(member).read() for member in read}  # type: ignore[union-attr]
    assert found == contents
    for start in (1, 511, 512, 513, 1024, 3000, archive.size - 1025, archive.size - 1024, archive.size - 1):
        assert b"".join(FolderArchive(tmp_path).chunks(start)) == whole[start:]
    assert FolderArchive(tmp_path).etag == archive.etag
    (tmp_path / "empty").write_bytes(b"no more")
    assert FolderArchive(tmp_path).etag != archive.etag


def test_an_archive_keeps_what_is_removed_while_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"w" * 3_000_000)
    chunks = FolderArchive(tmp_path).chunks()
    begun = next(chunks)
    file.unlink()
    assert (begun + b"".join(chunks)).count(b"w") == 3_000_000
    with pytest.raises(FileNotFoundError):
        FolderArchive(tmp_path)


def test_the_tail_of_a_log_begins_at_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail_start(log, 3) == 0
    lines = [f"line {number}: {'x' * (number % 700)}\n" for number in range(1000)]
    for end in ("", "no line end"):
        text = "".join(lines) + end
        log.write_text(text)
        for count in (1, 2, 10, 500, 999):
            kept = text.splitlines(keepends=True)[-count:]
            assert text[tail_start(log, count) :] == "".join(kept)
        assert tail_start(log, 5000) == 0
        assert tail_start(log, 0) == len(text)


def test_only_whole_lines_are_sent_unless_there_is_no_more_to_come() -> None:
    assert whole_lines(b"one\ntwo\nthr", last=False) == b"one\ntwo\n"
    assert whole_lines(b"one\ntwo\nthr", last=True) == b"one\ntwo\nthr"
    assert whole_lines(b"thr", last=False) == b""
    assert whole_lines(b"x" * BLOCK_BYTES, last=False) == b"x" * BLOCK_BYTES


def test_an_event_of_several_lines_is_one_event() -> None:
    assert sse("7", "log", "a\rb\nc") == b"id: 7\nevent: log\ndata: a\ndata: b\ndata: c\n\n"
    assert sse("8", "log", "") == b"id: 8\nevent: log\ndata: \n\n"
