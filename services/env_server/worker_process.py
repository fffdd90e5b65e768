"""A worker: one process that holds live episodes and steps them, one item at a time.

Started by the pool as ``python -m services.env_server.worker_process <socket fd> <progress fd> <json arguments>``.
It shares its progress (see `PROGRESS_SLOTS`), so that the server can see a step that hangs, and which one it is.
"""

import gc
import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from services.env_server.environments.base import DrawsTasks, EnvironmentDataError, EnvironmentFamily, NumberedTasks
from services.env_server.environments.registry import RegistryError, load_family
from services.env_server.episodes import EpisodeTable
from services.env_server.worker_protocol import (
    FRAME_HEADER,
    PROGRESS_BYTES,
    Answer,
    AskCatalogue,
    Call,
    Catalogue,
    CatalogueEntry,
    DrawTask,
    Drop,
    Hello,
    OpenGroup,
    Outcomes,
    RunItems,
)
from shared.telemetry import configure_logging

PARENT_CHECK_S = 1.0
"""How often a worker looks whether its server still lives."""


class WorkerArguments(msgspec.Struct):
    """What a worker is started with, as JSON on its command line."""

    environments: dict[str, str]
    step_deadline_s: float
    open_deadline_s: float


class Progress:
    """The shared page in which the server reads what the worker is at."""

    def __init__(self, descriptor: int, step_deadline_s: float, open_deadline_s: float) -> None:
        """``descriptor`` is an open file of at least `PROGRESS_BYTES` bytes."""
        self._cells = memoryview(mmap.mmap(descriptor, PROGRESS_BYTES)).cast("d")
        self._step_deadline_s = step_deadline_s
        self._open_deadline_s = open_deadline_s

    def call(self, number: int) -> None:
        """Begin a call."""
        self._cells[0] = number
        self._cells[1] = 0

    def item(self, index: int) -> None:
        """Begin an item of the call."""
        self._cells[1] = index

    def opening(self) -> None:
        """A task is being loaded or reset."""
        self._cells[2] = time.monotonic() + self._open_deadline_s

    def stepping(self) -> None:
        """One step is being taken."""
        self._cells[2] = time.monotonic() + self._step_deadline_s

    def idle(self) -> None:
        """Nothing is under way."""
        self._cells[2] = 0.0


def _read_exactly(connection: socket.socket, size: int) -> bytearray | None:
    """``size`` bytes, or None when the server has gone."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        read = connection.recv_into(view)
        if read == 0:
            return None
        view = view[read:]
    return data


def _send(connection: socket.socket, answer: Answer, encoder: msgspec.msgpack.Encoder) -> None:
    payload = encoder.encode(answer)
    connection.sendall(FRAME_HEADER.pack(len(payload)) + payload)


def _catalogue(families: Mapping[str, EnvironmentFamily]) -> Catalogue:
    entries = []
    for name, family in families.items():
        description = family.describe().model_copy(update={"name": name})
        tasks = {split: _travelling(family.tasks(split)) for split in description.splits}
        draws = isinstance(family, DrawsTasks)
        entries.append(CatalogueEntry(description.model_dump_json().encode(), tasks, draws))
    return Catalogue(entries)


def _travelling(tasks: Sequence[str]) -> list[str] | NumberedTasks:
    return tasks if isinstance(tasks, NumberedTasks) else list(tasks)


def _leave_with_parent() -> None:
    """End this process when the server is gone, even in the middle of a step that never returns."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def serve(connection: socket.socket, progress: Progress, families: Mapping[str, EnvironmentFamily]) -> None:
    """Answer calls until the server closes the connection."""
    table = EpisodeTable(families, progress)
    encoder = msgspec.msgpack.Encoder()
    decoder = msgspec.msgpack.Decoder(Call)
    while True:
        header = _read_exactly(connection, FRAME_HEADER.size)
        payload = None if header is None else _read_exactly(connection, FRAME_HEADER.unpack(header)[0])
        if payload is None:
            return
        call = decoder.decode(payload)
        progress.call(call.number)
        match call.body:
            case RunItems(items=items, encoding=encoding):
                body: Outcomes | Catalogue = Outcomes(table.run(items, encoding))
            case OpenGroup(session_ids=session_ids, birth=birth, encoding=encoding):
                body = Outcomes(table.open_group(session_ids, birth, encoding))
            case DrawTask():
                body = Outcomes([table.draw(call.body)])
            case AskCatalogue():
                body = _catalogue(families)
            case Drop(session_ids=session_ids):
                table.drop(session_ids)
                continue
        progress.idle()
        _send(connection, Answer(call.number, body), encoder)


def main(arguments: Sequence[str]) -> int:
    """Load the environments, say hello, and serve."""
    configure_logging("env_server")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the server decides
    _leave_with_parent()
    connection = socket.socket(fileno=int(arguments[0]))
    connection.setblocking(True)
    given = msgspec.json.decode(arguments[2], type=WorkerArguments)
    progress = Progress(int(arguments[1]), given.step_deadline_s, given.open_deadline_s)
    encoder = msgspec.msgpack.Encoder()
    try:
        families = {name: load_family(name, reference) for name, reference in given.environments.items()}
    except (EnvironmentDataError, RegistryError) as error:
        _send(connection, Answer(0, Hello(str(error))), encoder)
        return 1
    gc.collect()
    gc.freeze()  # what the environments have loaded lives as long as the process: no use in scanning it
    _send(connection, Answer(0, Hello()), encoder)
    serve(connection, progress, families)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
