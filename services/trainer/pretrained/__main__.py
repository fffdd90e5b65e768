"""``python -m services.trainer.pretrained smollm2 --out DIR``: a published model as a Hugging Face folder.

Transformers, vLLM and recipes (``model.path``) load what it writes.
"""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from services.trainer.pretrained import smollm2
from services.trainer.pretrained.folder import convert
from services.trainer.pretrained.gguf_model import ConversionError


class Model(StrEnum):
    """The models that can be had this way."""

    SMOLLM2 = "smollm2"


class Dtype(StrEnum):
    """How the weights are stored."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def main(
    model: Annotated[Model, typer.Argument(help="smollm2: SmolLM2-135M-Instruct (Apache-2.0).")],
    out: Annotated[Path, typer.Option(help="The folder to write; it must not be there yet.")],
    dtype: Annotated[Dtype, typer.Option(help="How the weights are stored; float32 for training on a CPU.")] = (
        Dtype.FLOAT32
    ),
) -> None:
    """Write a published model as an ordinary Hugging Face folder, without a download from a model hub."""
    began = time.monotonic()
    written = convert(smollm2.gguf_file(), out, dtype, smollm2.notices())
    print(
        f"{written.folder}: {model} as {dtype}, {written.parameters:,} weights, {written.bytes / 1e6:.0f} MB, "
        f"{time.monotonic() - began:.0f} s. Apache License 2.0, see LICENSE there."
    )


if __name__ == "__main__":
    try:
        typer.run(main)
    except ConversionError as error:
        raise SystemExit(f"error: {error}") from None
