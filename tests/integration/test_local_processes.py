"""The local stack's promise: what was started is watched, and nothing of it is left at the end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gagpo.ports import free_port
from gagpo.stack import ProcessGroup, ServiceDiedError, ServiceSet, ServiceSpec

SLEEPER = "import time; time.sleep(600)"
WITH_CHILD = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); {SLEEPER}"


def _python(name: str, code: str, ready_url: str | None = None, deadline_s: float = 10.0) -> ServiceSpec:
    return ServiceSpec(name, [sys.executable, "-c", code], ready_url=ready_url, ready_deadline_s=deadline_s)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{pid}/status").read_text()


def _wait(condition: str, check: object, deadline_s: float = 10.0) -> None:
    end = time.monotonic() + deadline_s
    while not check():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited {deadline_s} s for: {condition}"
        time.sleep(0.05)


def test_leaving_the_block_ends_a_service_and_what_it_started(tmp_path: Path) -> None:
    log = tmp_path / "parent.log"
    with ProcessGroup(tmp_path) as processes:
        processes.start(_python("parent", WITH_CHILD))
        _wait("the child's pid in the log", lambda: log.read_text().strip())
        pids = [processes.pids()["parent"], int(log.read_text())]
        assert all(_alive(pid) for pid in pids)
    _wait("both processes gone", lambda: not any(_alive(pid) for pid in pids))


def test_a_service_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as processes:
        processes.start(_python("doomed", "raise SystemExit('no such model: x')", "http://127.0.0.1:1/readyz"))
        with pytest.raises(ServiceDiedError, match=r"doomed ended with exit code 1(.|\n)*no such model: x"):
            processes.wait_ready()
        with pytest.raises(ServiceDiedError, match="doomed"):
            processes.check()


def test_a_server_that_ends_is_missed_even_where_it_ended_well(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as processes:
        processes.start(ServiceSpec("worker", [sys.executable, "-c", "pass"], may_end=True))
        _wait("the worker has ended", lambda: processes.exit_code("worker") == 0)
        processes.check()
        processes.start(ServiceSpec("server", [sys.executable, "-c", "pass"]))
        _wait("the server has ended", lambda: processes.exit_code("server") == 0)
        with pytest.raises(ServiceDiedError, match="server ended with exit code 0"):
            processes.check()


def test_a_service_that_never_gets_ready_misses_its_deadline(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/readyz"
    with ProcessGroup(tmp_path) as processes:
        processes.start(_python("slow", SLEEPER, url, deadline_s=0.5))
        with pytest.raises(ServiceDiedError, match="slow was not ready after"):
            processes.wait_ready()


def test_services_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    parent = (
        "import time; from pathlib import Path; from gagpo.stack import ProcessGroup, ServiceSpec; import sys\n"
        f"with ProcessGroup(Path({str(tmp_path)!r})) as group:\n"
        f"    group.start(ServiceSpec('child', [sys.executable, '-c', {SLEEPER!r}]))\n"
        "    print(group.pids()['child'], flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    _wait("the child gone", lambda: not _alive(child))


class _Doomed(ServiceSet):
    """One service that ends with an error as soon as ``go`` exists."""

    def start(self, go: Path) -> None:
        code = f"import time; from pathlib import Path\nwhile not Path({str(go)!r}).exists(): time.sleep(0.05)\nexit(3)"
        self._processes.start(_python("doomed", code))


def test_a_program_whose_server_dies_is_ended_and_the_server_named(tmp_path: Path) -> None:
    waiting = f"import os; from pathlib import Path; Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()));"
    with _Doomed(tmp_path) as services:
        services.start(tmp_path / "pid")
        with pytest.raises(ServiceDiedError, match="doomed ended with exit code 3"):
            services.run([sys.executable, "-c", f"{waiting} {SLEEPER}"])
        assert not _alive(int((tmp_path / "pid").read_text()))


def test_a_program_that_ends_by_itself_tells_its_exit_code_and_what_it_said(tmp_path: Path) -> None:
    with _Doomed(tmp_path) as services, (tmp_path / "said").open("wb") as said:
        services.start(tmp_path / "never")
        code = services.run([sys.executable, "-c", "raise SystemExit('so it is')"], errors=said)
    assert code == 1
    assert (tmp_path / "said").read_text() == "so it is\n"


@pytest.mark.slow
def test_a_service_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with ProcessGroup(tmp_path) as processes:
        processes.start(_python("stubborn", STUBBORN))
        _wait("it is ready", lambda: "ready" in (tmp_path / "stubborn.log").read_text())
        pid = processes.pids()["stubborn"]
    assert not _alive(pid)
