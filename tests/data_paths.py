"""Where the tests find the real data, and the one way to say that it is not there."""

import os
from pathlib import Path

import pytest

DATA_ROOT = Path(os.environ.get("GAGPO_DATA", Path(__file__).parents[2] / "shared" / "data"))


def real_data(relative: str) -> Path:
    """The path of a file or folder of the real data; skips the calling test where there is none."""
    path = DATA_ROOT / relative
    if not path.exists():
        pytest.skip(f"the real data is not here: {path} (set GAGPO_DATA to the folder that holds it)")
    return path
