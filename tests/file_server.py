"""A file server for tests of downloads, which misbehaves on demand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """A file server whose transfers break off after ``cut_after`` bytes, as long as there are ``cuts`` left."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.cuts = 0
        self.cut_after = 1000
        self.ranges: list[str] = []
        self.etag = '"1"'
        self.address = ""
        self.pages: dict[str, str] = {}
        """Web pages that come instead of the file, by the whole of what is asked for."""
        self.asked: list[str] = []


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve on a free port of this machine while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.path.removeprefix("/")
            server.asked.append(asked)
            if asked in server.pages:
                self.send_page(server.pages[asked].encode())
                return
            content = server.files.get(asked.partition("?")[0])
            if content is None:
                self.send_error(404)
                return
            start, fresh = 0, self.headers.get("If-Range", server.etag) == server.etag
            if (wanted := self.headers.get("Range")) and fresh:
                server.ranges.append(wanted)
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("ETag", server.etag)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            end = len(content)
            if server.cuts > 0:
                server.cuts -= 1
                end = min(end, start + server.cut_after)
            self.wfile.write(content[start:end])

        def send_page(self, page: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_port}"
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            http.shutdown()
