"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Works, but not as well as it could."""
    FAILED = "failed"
    """Something will not work until the remedy is done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    check: str
    verdict: Verdict
    message: str
    remedy: str = ""
    """What to do; empty where all is well."""
