"""A job's training worker, or its evaluation, as a child process that holds a lock on the run folder while it lives."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from services.trainer.server.run_folder import RunFolder
from services.trainer.server.settings import TrainerSettings
from shared.child_process import die_with_parent
from shared.files import try_lock

LOCK_POLL_S = 0.2


class WorkerProcess:
    """A running child, started by `start_process`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """``process`` leads a process group of its own."""
        self._process = process

    async def wait(self) -> int:
        """Its exit status; negative for a signal."""
        return await self._process.wait()

    async def stop(self, deadline_s: float) -> int:
        """Ask it to stop in good order, and kill it and all that it started when it does not; the exit status."""
        if self._process.returncode is None:
            # Only the leader: torchrun tells its processes itself, and a second signal would cut them off.
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):  # the kill below is for those who take too long
            await asyncio.wait_for(self._process.wait(), deadline_s)
        with contextlib.suppress(ProcessLookupError):  # the whole group is gone already
            os.killpg(self._process.pid, signal.SIGKILL)
        return await self._process.wait()


@asynccontextmanager
async def start_process(
    command: Sequence[str], settings: TrainerSettings, log_file: Path, lock: IO[str]
) -> AsyncIterator[WorkerProcess]:
    """Start a child, which inherits ``lock``; stop it when the block is left while it still runs.

    Call from the main thread: the child is told to stop when the thread that started it ends.
    """
    with log_file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, "REDIS_URL": settings.redis_url, "PYTHONUNBUFFERED": "1"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
            preexec_fn=die_with_parent,
        )
    worker = WorkerProcess(process)
    try:
        yield worker
    finally:
        await worker.stop(settings.stop_deadline_s)


def worker_command(settings: TrainerSettings, folder: RunFolder) -> list[str]:
    """The command line of a job's worker; the Redis URL, which may hold a password, is not on it."""
    launcher = [sys.executable, "-m"]
    if settings.nproc > 1:
        launcher += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(settings.nproc), "-m"]
    return [
        *launcher,
        "services.trainer",
        *("--job", folder.job, "--recipe", str(folder.recipe), "--run-dir", str(folder.path)),
        *("--policy-url", ",".join(settings.policy_urls), "--weights-host", settings.weights_host),
        *("--step-deadline-s", str(settings.step_deadline_s), "--threads", str(settings.threads)),
    ]


@asynccontextmanager
async def folder_lock(path: Path) -> AsyncIterator[IO[str]]:
    """Hold the lock file ``path``, waiting for whoever holds it.

    It is free again once every process that inherited the file has ended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        while True:
            if try_lock(file):
                break
            await asyncio.sleep(LOCK_POLL_S)
        yield file


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock file."""
    if not path.exists():
        return False
    with path.open("a+") as file:
        return not try_lock(file)
