"""How pushed weights reach the server, and what a peer can't do to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from services.policy_server.transports import MAX_GROWTH, FileTransport, HttpTransport
from shared.problems import ProblemError
from shared.schemas.policy import WeightFile, WeightStream


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@contextmanager
def serving(content: bytes, announced: int | None = None) -> Iterator[str]:
    """A web server that answers everything with ``content``; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(content) if announced is None else announced))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/weights"
        finally:
            server.shutdown()


async def test_a_stream_is_spooled_and_removed_afterwards(tmp_path: Path) -> None:
    with serving(b"x" * 3_000_000) as url:
        async with HttpTransport(WeightStream(url=url), tmp_path, 10, 1_000_000).folder() as folder:
            assert (folder / "model.safetensors").read_bytes() == b"x" * 3_000_000
    assert names_in(tmp_path) == []


async def test_a_stream_without_end_is_cut_off(tmp_path: Path) -> None:
    with serving(b"x" * ((1 << 20) + MAX_GROWTH * 1000 + 1)) as url, pytest.raises(ProblemError) as caught:
        async with HttpTransport(WeightStream(url=url), tmp_path, 10, 1000).folder():
            raise AssertionError("the stream was taken")
    assert caught.value.kind == "weights-mismatch"
    assert names_in(tmp_path) == []


async def test_a_stream_that_breaks_off_is_not_taken(tmp_path: Path) -> None:
    with serving(b"x" * 10, announced=100) as url, pytest.raises(ProblemError) as caught:
        async with HttpTransport(WeightStream(url=url), tmp_path, 10, 1000).folder():
            raise AssertionError("the stream was taken")
    assert (caught.value.status, caught.value.kind) == (502, "weights-fetch-failed")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/weights", "no-url", "http://[/"])
async def test_an_address_where_nothing_is_served_is_a_problem(tmp_path: Path, url: str) -> None:
    with pytest.raises(ProblemError) as caught:
        async with HttpTransport(WeightStream(url=url), tmp_path, 10, 1000).folder():
            raise AssertionError("the stream was taken")
    assert caught.value.status in (422, 502)


async def test_a_folder_that_this_machine_does_not_have_is_a_problem_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="absent"):
        async with FileTransport(WeightFile(path=str(tmp_path / "absent"))).folder():
            raise AssertionError("the folder was taken")
