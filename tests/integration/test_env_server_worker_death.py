"""What a call meets whose worker has just died, on the event loop that the server runs on."""

import asyncio
import os
import signal
from collections import Counter

import uvloop

from services.env_server.worker_protocol import RunItems
from services.env_server.worker_slot import WorkerLimits, WorkerLostError, WorkerSlot

DEATHS = 5
"""In each of them, calls met a closed connection before it was known that the worker had gone."""


def test_calls_that_come_while_a_worker_dies_are_told_that_it_was_lost() -> None:
    met = uvloop.run(_call_while_workers_die())
    assert set(met) == {"answered", "worker lost: crash"}
    assert met["worker lost: crash"] >= DEATHS


async def _call_while_workers_die() -> Counter[str]:
    limits = WorkerLimits(step_deadline_s=5, open_deadline_s=5, start_deadline_s=30)
    slot = WorkerSlot(0, {"maze": "tests.environments.maze:MazeFamily"}, dict(os.environ), limits, lambda reason: None)
    await slot.start()
    kept = asyncio.create_task(slot.run())
    met: Counter[str] = Counter()
    try:
        async with asyncio.timeout(60):
            for _ in range(DEATHS):
                await _call_until_one_is_lost(slot, met)
                while not slot.ready:  # noqa: ASYNC110 - a slot announces nothing; the server looks again too
                    await asyncio.sleep(0.01)
    finally:
        kept.cancel()
        await asyncio.gather(kept, return_exceptions=True)
    return met


async def _call_until_one_is_lost(slot: WorkerSlot, met: Counter[str]) -> None:
    """A new call in every turn of the loop, whether or not the ones before are answered."""
    calls = []
    for turn in range(100_000):
        if not slot.ready:
            break
        if turn == 200:
            assert slot.pid is not None
            os.kill(slot.pid, signal.SIGKILL)
        calls.append(asyncio.create_task(_call(slot, met)))
        await asyncio.sleep(0)
    await asyncio.gather(*calls)


async def _call(slot: WorkerSlot, met: Counter[str]) -> None:
    try:
        await slot.call(RunItems([], "json"))
    except WorkerLostError as error:
        met[str(error)] += 1
    else:
        met["answered"] += 1
