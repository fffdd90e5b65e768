"""``gagpo warmstart``: make the small policy that GAGPO starts from.

The trainer's package does the work in a process of its own; this hands the options over.
"""

import typer

from gagpo.commands.hand_over import hand_over


def warmstart(context: typer.Context) -> None:
    """Train the small policy on expert episodes until it is good enough to learn on its own.

    Options: gagpo warmstart --help
    """
    hand_over("services.trainer.warmstart", context.args)
