"""Child processes that are watched while they live and that never outlive their parent."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from shared.child_process import die_with_parent
from shared.exit_status import how_it_ended
from shared.telemetry import readable

_KILL_DEADLINE_S = 12.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """How to start one service and to know that it is ready."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of this process's own."""
    ready_url: str | None = None
    """Answers 200 once the service is ready; None for a process that has no HTTP."""
    ready_deadline_s: float = 120.0
    stop_deadline_s: float = 12.0
    """It is killed when it takes longer to end."""
    may_end: bool = False
    """It has an end of its own, with exit code 0; anything else that ends has failed whatever its exit code."""


class ServiceDiedError(Exception):
    """A service ended, or did not become ready; the message holds its own last words."""


@dataclass(slots=True)
class _Child:
    spec: ServiceSpec
    process: subprocess.Popen[bytes]
    log: Path


class ProcessGroup:
    """Services started together. Leaving the ``with`` block stops them all, the last one first."""

    def __init__(self, log_folder: Path) -> None:
        """Each service's output goes to ``<log_folder>/<name>.log``."""
        self._logs = log_folder
        self._children: list[_Child] = []

    def __enter__(self) -> Self:
        """Nothing runs until `start`."""
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, however the block was left."""
        self.stop()

    def start(self, spec: ServiceSpec) -> None:
        """Start a service; `wait_ready` tells when it serves. Call from the main thread."""
        log = self._logs / f"{spec.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                spec.argv,
                env={**os.environ, **spec.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone, and we stop the children in order
                preexec_fn=die_with_parent,
            )
        self._children.append(_Child(spec, process, log))

    def wait_ready(self, tick: Callable[[str], None] | None = None) -> None:
        """Wait until every service answers at its ``ready_url``. ``tick(name)`` is called while waiting for it.

        Raises `ServiceDiedError` when one ends or misses its deadline.
        """
        for child in self._children:
            self._wait_child(child, tick)

    def check(self) -> None:
        """Raise `ServiceDiedError` if a service has ended with an error, or at all where it should go on serving."""
        for child in self._children:
            code = child.process.poll()
            if code is not None and not (code == 0 and child.spec.may_end):
                raise ServiceDiedError(self._last_words(child))

    def exit_code(self, name: str) -> int | None:
        """The exit code of a service, None while it runs."""
        return self._child(name).process.poll()

    def pids(self) -> dict[str, int]:
        """Service name → process id."""
        return {child.spec.name: child.process.pid for child in self._children}

    def stop(self) -> None:
        """Stop every service: asked politely first, killed after a deadline, with whatever they started."""
        children, self._children = list(reversed(self._children)), []
        with _interrupts_deferred():
            _terminate(children)

    def _child(self, name: str) -> _Child:
        return next(child for child in self._children if child.spec.name == name)

    def _wait_child(self, child: _Child, tick: Callable[[str], None] | None) -> None:
        deadline = time.monotonic() + child.spec.ready_deadline_s
        with httpx.Client(timeout=2.0) as http:  # one for all polls: each new one reads the system's certificates
            while child.spec.ready_url is not None and not _answers(http, child.spec.ready_url):
                for other in self._children:
                    if other.process.poll() is not None:
                        raise ServiceDiedError(self._last_words(other))
                if time.monotonic() > deadline:
                    late = f"{child.spec.name} was not ready after {child.spec.ready_deadline_s:.0f} s"
                    raise ServiceDiedError(f"{late}\n{self._last_words(child)}")
                if tick is not None:
                    tick(child.spec.name)
                time.sleep(_POLL_S)

    def _last_words(self, child: _Child) -> str:
        lines = child.log.read_text(errors="replace").splitlines()[-12:]
        code = child.process.poll()
        ended = "is running" if code is None else how_it_ended(code)
        said = [f"  {part}" for line in lines for part in readable(line).splitlines()]
        return "\n".join([f"{child.spec.name} {ended}; the end of {child.log}:", *said])


def _answers(http: httpx.Client, url: str) -> bool:
    try:
        return http.get(url).status_code == httpx.codes.OK
    except httpx.TransportError:  # not listening yet, or busy: that is what polling is for
        return False


def _terminate(children: Sequence[_Child]) -> None:
    """Each service in turn, so that what it depends on is still there while it finishes."""
    for child in children:
        _signal_group(child, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kill below is for those who take too long
            child.process.wait(child.spec.stop_deadline_s)
        _signal_group(child, signal.SIGKILL)
        child.process.wait(_KILL_DEADLINE_S)


def _signal_group(child: _Child, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the whole group is gone already
        os.killpg(child.process.pid, number)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """A second Ctrl-C, or one more request to end, must not leave half of the processes behind."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
