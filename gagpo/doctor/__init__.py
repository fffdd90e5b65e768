"""Checks of the machine: what is there, what is missing, and the command that mends it."""

from gagpo.doctor.checks import quick_checks
from gagpo.doctor.finding import Finding, Verdict
from gagpo.doctor.parity import check_parity

__all__ = ["Finding", "Verdict", "check_parity", "quick_checks"]
