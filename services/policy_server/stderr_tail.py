"""Keeps the last lines that this process and its children wrote to standard error, to explain a failure with them."""

import itertools
import json
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

from shared.telemetry import JsonLines

_EXCEPTION = re.compile(r"(?:^|\s)((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt): .+)")
_PREFIX = re.compile(r"^\((?:EngineCore|Worker)[^)]*\)\s*(?:ERROR [^\]]*\]\s*)?")
_CONSEQUENCES = ("EngineDeadError", "EngineGenerateError", "Engine core initialization failed")
"""What one process says when it lost another: never the reason."""


MOST_CHARACTERS = 400
"""Of a reason: vLLM's go on with lists of every model that it knows."""


class StderrTail:
    """Standard error passes through a pipe on its way out; vLLM's processes inherit it."""

    def __init__(self, lines: int = 400, show: Callable[[str], str] = str) -> None:
        """``show`` is how a line is passed on; `as_json` where only JSON is to come out."""
        self._show = show
        self._lines: deque[str] = deque(maxlen=lines)
        self.stream: TextIO = os.fdopen(os.dup(2), "w", buffering=1)
        """The true standard error."""

    def start(self) -> None:
        """Put the pipe in place and pass on what comes, until the process ends."""
        reader, writer = os.pipe()
        os.dup2(writer, 2)
        os.close(writer)
        threading.Thread(target=self._pump, args=(reader,), name="stderr-tail", daemon=True).start()

    def _pump(self, reader: int) -> None:
        with os.fdopen(reader, errors="replace") as source:
            for line in source:
                self._lines.append(line.rstrip("\n"))
                self.stream.write(self._show(line))

    def reasons(self, most: int = 3) -> list[str]:
        """The last distinct exceptions among the lines, newest last: what vLLM gave as its own reason."""
        found: list[str] = []
        for line in itertools.chain.from_iterable(map(_spoken, self._lines)):
            match = _EXCEPTION.search(_PREFIX.sub("", line))
            if match is None or any(name in line for name in _CONSEQUENCES):
                continue
            if (reason := shortened(match.group(1))) not in found:
                found.append(reason)
        return found[-most:]


def shortened(reason: str) -> str:
    """The beginning of a reason, which says what is wrong."""
    return reason if len(reason) <= MOST_CHARACTERS else f"{reason[:MOST_CHARACTERS].rstrip()} …"


def as_json(service: str, line: str) -> str:
    """A line of C++ or of a progress bar as JSON; one that is JSON already as it is, and nothing for an empty one."""
    if line.startswith("{") or not line.strip():
        return line.lstrip()
    record = logging.LogRecord("stderr", logging.INFO, __file__, 0, line.strip(), None, None)
    return JsonLines(service).format(record) + "\n"


def _spoken(line: str) -> list[str]:
    """What a line says: of a line of JSON, its message and its traceback."""
    if not line.startswith("{"):
        return [line]
    try:
        content = json.loads(line)
    except json.JSONDecodeError:
        return [line]
    return f"{content.get('message', '')}\n{content.get('error', '')}".splitlines()
