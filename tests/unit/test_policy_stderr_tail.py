"""vLLM's own reason is found among what it wrote."""

import subprocess
import sys

SCRIPT = """
import subprocess, sys, time
from services.policy_server.stderr_tail import StderrTail
tail = StderrTail()
tail.start()
print("of the parent", file=sys.stderr, flush=True)
child = "import sys; print('(EngineCore pid=7) ERROR 11-30 [core.py:1] ValueError: heads of 16', file=sys.stderr)"
subprocess.run([sys.executable, "-c", child], check=True)
print("vllm.v1.EngineDeadError: see above", file=sys.stderr, flush=True)
time.sleep(0.3)
print("|".join(tail.reasons()))
"""


def test_lines_of_children_pass_through_and_their_exceptions_are_kept() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.strip() == "ValueError: heads of 16"
    assert "of the parent" in ran.stderr
    assert "heads of 16" in ran.stderr
