"""What is in the images, and what is not."""

import pytest

from tests.compose.system import BUILT, image_bytes, in_image

pytestmark = [pytest.mark.slow, pytest.mark.compose, pytest.mark.timeout(2700), pytest.mark.usefixtures("images")]

ENV_IMAGE_MB = 400
IS_THERE = "import importlib.util, sys; sys.exit(sum(bool(importlib.util.find_spec(name)) for name in sys.argv[1:]))"


def test_the_env_image_is_small_and_has_neither_torch_nor_vllm() -> None:
    assert image_bytes("env-server") <= ENV_IMAGE_MB * 1e6
    heavy = ("torch", "vllm", "transformers", "matplotlib")
    assert in_image("env-server", "python", "-c", IS_THERE, *heavy).returncode == 0


@pytest.mark.parametrize("service", BUILT)
def test_no_image_has_a_compiler_or_runs_as_root(service: str) -> None:
    assert in_image(service, "python", "-c", "import os; print(os.getuid())").stdout.strip() == "10001"
    look = "import shutil, sys; sys.exit(sum(bool(shutil.which(one)) for one in ('cc', 'gcc', 'g++', 'c++', 'make')))"
    assert in_image(service, "python", "-c", look).returncode == 0


def test_stock_textworld_plays_in_the_env_image() -> None:
    played = in_image("env-server", "python", "-c", "import textworld, fast_downward, jericho, numpy; numpy.eye(9)")
    assert played.returncode == 0, played.stderr
