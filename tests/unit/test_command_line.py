"""The command line as a whole."""

import subprocess
import sys


def test_a_command_starts_without_what_only_few_of_them_need() -> None:
    heavy = {"matplotlib", "scipy", "pandas", "torch", "transformers", "openai", "nicegui"}
    check = f"import sys, gagpo.cli; loaded = {heavy} & set(sys.modules); assert not loaded, loaded"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
