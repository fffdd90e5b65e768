"""Commands that a service's own module carries out: it may need packages that a client does not have."""

import os
import sys
from typing import NoReturn

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Context settings of a command that leaves all of its options, ``--help`` included, to the module."""


def hand_over(module: str, arguments: list[str]) -> NoReturn:
    """Become ``python -m <module> <arguments>``."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
