"""Keeps the last lines that this process and its children wrote to standard error, to explain a failure with them."""

import itertools
import json
import os
import re
import threading
from collections import deque
from typing import TextIO

_EXCEPTION = re.compile(r"(?:^|\s)((?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt): .+)")
_PREFIX = re.compile(r"^\((?:EngineCore|Worker)[^)]*\)\s*(?:ERROR [^\]]*\]\s*)?")
_CONSEQUENCES = ("EngineDeadError", "EngineGenerateError", "Engine core initialization failed")
"""What one process says when it lost another: never the reason."""


class StderrTail:
    """Standard error passes through a pipe on its way out; vLLM's processes inherit it."""

    def __init__(self, lines: int = 400) -> None:
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
                self.stream.write(line)

    def reasons(self, most: int = 3) -> list[str]:
        """The last distinct exceptions among the lines, newest last: what vLLM gave as its own reason."""
        found: list[str] = []
        for line in itertools.chain.from_iterable(map(_spoken, self._lines)):
            match = _EXCEPTION.search(_PREFIX.sub("", line))
            if match is None or any(name in line for name in _CONSEQUENCES):
                continue
            if match.group(1) not in found:
                found.append(match.group(1))
        return found[-most:]


def _spoken(line: str) -> list[str]:
    """What a line says: of a line of JSON, its message and its traceback."""
    if not line.startswith("{"):
        return [line]
    try:
        content = json.loads(line)
    except json.JSONDecodeError:
        return [line]
    return f"{content.get('message', '')}\n{content.get('error', '')}".splitlines()
