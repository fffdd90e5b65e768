"""What a child process that must not outlive its parent does first."""

import contextlib
import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For ``preexec_fn``: be told to stop when the parent dies, however it dies (Linux, prctl(2)).

    The parent is the thread that starts the child: start children that shall live long from the main thread.
    """
    with contextlib.suppress(OSError, AttributeError):  # not on this system; then only an orderly stop is covered
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
