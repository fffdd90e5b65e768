"""Times and sizes as people say them."""

from datetime import datetime

_KIB = 1024.0


def duration(seconds: float) -> str:
    """``8.2 s``, ``42 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(then: datetime, now: datetime) -> str:
    """``just now``, ``3 min ago``."""
    seconds = (now - then).total_seconds()
    return "just now" if seconds < 10 else f"{duration(seconds)} ago"


def clock(time: datetime) -> str:
    """Date and time to the second, in UTC as the logs are."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def size(count: float) -> str:
    """Bytes: ``812 B``, ``9.7 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < _KIB:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= _KIB
    return f"{count:.1f} TB"


def percent(share: float | None) -> str:
    """A share from 0 to 1: ``62.5%``; a dash where there is none."""
    return "–" if share is None else f"{100 * share:.1f}%"
