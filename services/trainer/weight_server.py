"""A small HTTP server, in a thread, from which policy servers fetch weights (the ``http`` transport)."""

import secrets
import shutil
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class WeightServer:
    """Serves the safetensors files of the weight folders below one folder, and nothing else."""

    def __init__(self, folder: Path, host: str, port: int = 0) -> None:
        """``host`` is the address to listen on and to be reached at; port 0 takes a free one."""
        # Whoever is told a URL may read the weights; nobody else can guess it.
        self._secret = secrets.token_urlsafe(16)
        self._server = ThreadingHTTPServer((host, port), _handler(folder, self._secret))
        self._server.daemon_threads = True
        self._host = host
        self._thread = Thread(target=self._server.serve_forever, name="weight-server", daemon=True)
        self._thread.start()

    def url(self, weights: str) -> str:
        """Where the weight folder of that name can be fetched as one safetensors stream."""
        return f"http://{self._host}:{self._server.server_address[1]}/{self._secret}/{weights}/model.safetensors"

    def close(self) -> None:
        """Stop listening; transfers that are under way are cut."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _handler(folder: Path, secret: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, given, *rest = [*self.path.split("/"), "", ""]
            known = {f"{file.parent.name}/{file.name}": file for file in folder.glob("*/*.safetensors")}
            file = known.get("/".join(rest[:2]))
            if not secrets.compare_digest(given.encode(), secret.encode()) or file is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            with file.open("rb") as stream:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(file.stat().st_size))
                self.end_headers()
                shutil.copyfileobj(stream, self.wfile, 1 << 20)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the push itself is logged."""

    return Handler
