"""Background tasks that may not die unseen."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)


class Supervisor:
    """Runs tasks as long as the server lives; one that fails is logged and makes the server unhealthy."""

    def __init__(self) -> None:
        """No tasks yet."""
        self._tasks: list[asyncio.Task[None]] = []
        self.failed: list[str] = []
        """Names of the tasks that ended although they should not."""

    def start(self, name: str, work: Coroutine[None, None, None]) -> None:
        """Run ``work``, which is not expected to end."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Supervisor"]:
        """Cancel all tasks at the end, and wait for them."""
        try:
            yield self
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.failed.append(task.get_name())
            logger.critical("background task %s ended", task.get_name(), exc_info=task.exception())
