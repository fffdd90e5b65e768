"""Gets groups made and into the buffer, and tells what came of them."""

import logging
import time

from services.orchestrator.groups import GroupLostError, GroupMaker, GroupOrder
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.tally import (
    GroupFigures,
    decode_figures,
    encode_figures,
    group_figures,
    group_payload,
    rollout_payload,
)
from shared.buffer import AsyncEventWriter, BufferState, GroupWriter
from shared.telemetry import log_context

logger = logging.getLogger(__name__)


class Delivery:
    """One orchestrator's way into a job's buffer and events."""

    def __init__(
        self,
        maker: GroupMaker,
        writer: GroupWriter,
        events: AsyncEventWriter,
        metrics: OrchestratorMetrics,
        *,
        groups_per_step: int,
        deadline_s: float,
    ) -> None:
        """``deadline_s`` bounds the wait for room in the buffer."""
        self._maker = maker
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._groups_per_step = groups_per_step
        self._deadline_s = deadline_s

    @property
    def room(self) -> int:
        """How many more groups are needed to have `concurrency` episodes in flight."""
        return self._maker.room

    async def buffer(self) -> BufferState:
        """What the buffer holds now."""
        state = await self._writer.state()
        self._metrics.buffer_bytes.set(state.held_bytes)
        return state

    async def fill(self, order: GroupOrder) -> None:
        """Make one group and add it, or say that it will not come. Raises `BufferTimeoutError`."""
        with log_context(step=order.step, group=order.index):
            await self._fill(order)

    async def _fill(self, order: GroupOrder) -> None:
        began = time.time()
        try:
            group = await self._maker.make(order)
        except GroupLostError as error:
            await self._drop(order, began, str(error))
        else:
            figures = encode_figures(group_figures(group, began, time.time()))
            if await self._writer.add(group, self._deadline_s, figures):
                self._metrics.count_group(group)
                await self._events.emit("group", group_payload(group))
        await self.report(order.step)

    async def report(self, step: int) -> None:
        """Emit the event ``rollout`` if all groups of the training step are there and nobody has emitted it."""
        figures = decode_figures(await self._writer.take_figures(step, self._groups_per_step))
        if figures:
            held_bytes = (await self.buffer()).held_bytes
            await self._events.emit("rollout", rollout_payload(step, figures, held_bytes))

    async def _drop(self, order: GroupOrder, began: float, reason: str) -> None:
        logger.error("group dropped: %s", reason)
        name = order.environment.name
        figures = encode_figures(GroupFigures(name, began, time.time(), dropped=True))
        if await self._writer.drop(order.step, order.index, reason, figures):
            self._metrics.groups_dropped.labels(name).inc()
            await self._events.emit(
                "group-dropped", {"step": order.step, "index": order.index, "environment": name, "reason": reason}
            )
