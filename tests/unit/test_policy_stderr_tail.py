"""vLLM's own reason is found among what it wrote."""

import json
import subprocess
import sys

from services.policy_server.stderr_tail import MOST_CHARACTERS, as_json, shortened

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


def test_where_only_json_is_to_come_out_other_lines_are_wrapped() -> None:
    wrapped = as_json("policy_server", "[W1130 utils.cpp:68] binding\n")
    assert wrapped.endswith("}\n")
    line = json.loads(wrapped)
    assert (line["service"], line["message"]) == ("policy_server", "[W1130 utils.cpp:68] binding")
    assert as_json("policy_server", '{"level": "info"}\n') == '{"level": "info"}\n'
    assert as_json("policy_server", "\n") == ""


def test_vllms_reason_is_found_in_lines_of_json() -> None:
    script = SCRIPT.replace("'(EngineCore pid=7) ERROR 11-30 [core.py:1] ValueError: heads of 16'", "sys.argv[1]")
    said = json.dumps({"message": "it failed", "error": "Traceback:\n  File x\nValueError: heads of 16"})
    script = script.replace('"-c", child]', f'"-c", child, {said!r}]')
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.strip() == "ValueError: heads of 16"


def test_a_reason_that_goes_on_and_on_is_cut_after_what_it_is_about() -> None:
    reason = f"ValueError: Model architectures ['No'] are not supported. Supported: {', '.join(map(str, range(1000)))}"
    said = shortened(reason)
    assert said.startswith("ValueError: Model architectures ['No'] are not supported.") and said.endswith("…")
    assert len(said) <= MOST_CHARACTERS + 2
    assert shortened("ValueError: heads of 16") == "ValueError: heads of 16"
