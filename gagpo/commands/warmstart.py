"""``gagpo warmstart``: make the small policy that GAGPO starts from.

The trainer's package does the work in a process of its own; this hands the options over.
"""

import os
import sys

import typer


def warmstart(context: typer.Context) -> None:
    """Train the small policy on expert episodes until it is good enough to learn on its own.

    Options: gagpo warmstart --help
    """
    os.execv(sys.executable, [sys.executable, "-m", "services.trainer.warmstart", *context.args])
