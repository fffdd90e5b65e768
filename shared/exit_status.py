"""What the exit status of a process tells: one that was killed leaves no last words."""

import signal

_KILLED = (
    "most often the system's doing when memory runs out, which `dmesg` tells; "
    "gagpo plan RECIPE says how much a recipe takes"
)


def how_it_ended(status: int) -> str:
    """The end of a sentence about a process; a signal's ``status`` is negative, or 128 and its number as in a shell."""
    try:
        ended_by = signal.Signals(-status if status < 0 else status - 128)
    except ValueError:  # no signal of this number: an ordinary end
        return f"ended with exit code {status}"
    return f"was ended by {ended_by.name}" + (f": {_KILLED}" if ended_by is signal.SIGKILL else "")
