"""Whether the policy server's log-probabilities are the trainer's: the check that catches a wrong set of kernels."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from gagpo.doctor.finding import Finding, Verdict
from gagpo.ports import free_port
from gagpo.stack import ProcessGroup, ServiceDiedError, ServiceSpec

_DEADLINE_S = 300.0


class _Report(BaseModel):
    mean: float
    max: float
    within: bool
    """Both are within the limits that the comparison holds float32 to."""


def check_parity(model: Path, tick: Callable[[str], None] | None = None) -> Finding:
    """Start a policy server on ``model`` and compare its log-probabilities with Hugging Face's on the same tokens."""
    url = f"http://127.0.0.1:{free_port()}"
    server = [sys.executable, "-m", "services.policy_server", "--model", str(model), "--port", url.rsplit(":", 1)[1]]
    compare = [sys.executable, "-m", "services.policy_server.parity", "--model", str(model), "--server", url]
    with tempfile.TemporaryDirectory(prefix="gagpo-doctor-") as logs, ProcessGroup(Path(logs)) as processes:
        processes.start(ServiceSpec("policy-server", server, ready_url=f"{url}/readyz", ready_deadline_s=_DEADLINE_S))
        try:
            processes.wait_ready(tick)
        except ServiceDiedError as error:
            return Finding("log-prob parity", Verdict.FAILED, str(error), "mend what the policy server says")
        done = subprocess.run(compare, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    if not done.stdout.strip():
        return Finding("log-prob parity", Verdict.FAILED, done.stderr.strip()[-500:], "mend what the comparison says")
    report = _Report.model_validate_json(done.stdout.strip().splitlines()[-1])
    message = f"mean difference {report.mean:.1e}, max {report.max:.1e} nats"
    if not report.within:
        remedy = "train with old_logprobs = 'trainer', and look for another torch or vLLM build"
        return Finding("log-prob parity", Verdict.FAILED, message, remedy)
    return Finding("log-prob parity", Verdict.OK, message)
