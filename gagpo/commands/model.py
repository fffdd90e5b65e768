"""``gagpo model``: a published model as a folder that recipes can train.

The trainer's package does the work in a process of its own; this hands the options over.
"""

import typer

from gagpo.commands.hand_over import hand_over


def model(context: typer.Context) -> None:
    """Write a published model as a Hugging Face folder: gagpo model smollm2 --out models/SmolLM2-135M-Instruct

    Options: gagpo model --help
    """
    hand_over("services.trainer.pretrained", context.args)
