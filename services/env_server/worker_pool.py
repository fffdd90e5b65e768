"""The worker processes of one server, and where a session is placed among them."""

import asyncio
from collections.abc import Callable
from zlib import crc32

from services.env_server.supervision import Supervisor
from services.env_server.worker_slot import DeathReason, WorkerLimits, WorkerSlot

PLACE_POLL_S = 0.02
"""How often a request that waits for a worker looks again."""

IMBALANCE = 16
"""How many sessions more than the freest slot a task's usual slot may have."""


class NoWorkerError(Exception):
    """No worker became ready in time."""


class WorkerPool:
    """A fixed number of slots, each with a worker that is replaced when it dies."""

    def __init__(
        self,
        environments: dict[str, str],
        count: int,
        variables: dict[str, str],
        limits: WorkerLimits,
        on_death: Callable[[DeathReason], None],
    ) -> None:
        """``environments`` is name → ``module:Class``; ``variables`` are the workers' environment variables."""
        self.slots = [WorkerSlot(number, environments, variables, limits, on_death) for number in range(count)]
        self._start_deadline_s = limits.start_deadline_s

    async def start(self, supervisor: Supervisor) -> None:
        """Start all workers, and keep one in each slot as long as the supervisor runs. Raises `WorkerStartError`."""
        started = await asyncio.gather(*(slot.start() for slot in self.slots), return_exceptions=True)
        for slot in self.slots:
            if slot.ready:
                supervisor.start(f"worker {slot.number}", slot.run())
        for result in started:
            if isinstance(result, BaseException):
                raise result

    @property
    def ready(self) -> int:
        """How many workers take calls now."""
        return sum(slot.ready for slot in self.slots)

    async def place(self, task_id: str, preferred: WorkerSlot | None = None) -> WorkerSlot:
        """A ready slot. Raises `NoWorkerError`.

        The preferred one; else the task's usual one, which may have it loaded; else the one with the fewest sessions.
        """
        if preferred is not None and preferred.ready:
            return preferred
        deadline = asyncio.get_running_loop().time() + self._start_deadline_s
        while True:
            if candidates := [slot for slot in self.slots if slot.ready]:
                freest = min(candidates, key=lambda slot: slot.sessions)
                home = candidates[crc32(task_id.encode()) % len(candidates)]
                return home if home.sessions <= freest.sessions + IMBALANCE else freest
            if asyncio.get_running_loop().time() > deadline:
                raise NoWorkerError
            await asyncio.sleep(PLACE_POLL_S)
