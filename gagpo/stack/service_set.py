"""What every set of services of this machine can do: be watched, and be stopped as a whole."""

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from gagpo.stack.processes import ProcessGroup
from shared.child_process import die_with_parent

_LOOK_EVERY_S = 0.5


class ServiceSet:
    """Services that belong together. Leaving the ``with`` block stops them; nothing runs until they are started."""

    def __init__(self, log_folder: Path) -> None:
        """Each service's output goes to ``<log_folder>/<name>.log``."""
        self._processes = ProcessGroup(log_folder)

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        self._processes.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop them, however the block was left."""
        self.stop()

    def stop(self) -> None:
        """Stop them, the last one first."""
        self._processes.stop()

    def check(self) -> None:
        """Raise `ServiceDiedError` if one of them has ended that should not have."""
        self._processes.check()

    def pids(self) -> dict[str, int]:
        """Service name → process id."""
        return self._processes.pids()

    def run(
        self, argv: Sequence[str], *, output: IO[bytes] | int | None = None, errors: IO[bytes] | int | None = None
    ) -> int:
        """Run a program that uses the services to its end; its exit code.

        ``output`` and ``errors`` take what it says; None leaves that to the terminal. A program whose server has ended
        may wait for it for long: it is killed, and `ServiceDiedError` raised.
        """
        process = subprocess.Popen(argv, stdout=output, stderr=errors, preexec_fn=die_with_parent)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):  # it is at work: look whether it still can be
                    return process.wait(_LOOK_EVERY_S)
                self.check()
        finally:
            process.kill()
            process.wait()
