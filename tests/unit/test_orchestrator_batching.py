"""A step that an env server refuses for now, within a batch that it takes."""

import pytest
from aiohttp import web

from services.orchestrator.environments import EnvironmentPool, Session
from services.orchestrator.http import ReplicaSet, ServerProblemError
from shared.schemas.environment import Observation, Problem, StepBatch, StepBatchResult, StepResult

BUSY = Problem(type="/problems/worker-unavailable", title="Busy", status=503, detail="a worker is being replaced")


class BusyServer:
    """Refuses the first ``busy`` batches item by item, as a real one does while a worker is being replaced."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.batches: list[StepBatch] = []

    async def steps(self, request: web.Request) -> web.Response:
        batch = StepBatch.model_validate_json(await request.read())
        self.batches.append(batch)
        done = [
            StepResult(
                session_id=step.session_id,
                task_id="t",
                observation="o",
                admissible_actions=[],
                state_key="k",
                step_index=step.step_index + 1,
                info={},
                reward=0.0,
                terminated=False,
                truncated=False,
            )
            for step in batch.steps
        ]
        answer = StepBatchResult(results=[BUSY] * len(done) if len(self.batches) <= self.busy else list(done))
        return web.Response(text=answer.model_dump_json(), content_type="application/json")


async def _step(server: BusyServer, deadline_s: float) -> StepResult:
    app = web.Application()
    app.router.add_post("/v1/steps", server.steps)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    first = Observation(
        session_id="s", task_id="t", observation="o", admissible_actions=[], state_key="k", step_index=0, info={}
    )
    try:
        async with ReplicaSet([f"http://127.0.0.1:{runner.addresses[0][1]}"], 5, deadline_s) as replicas:
            return await EnvironmentPool(replicas).step(Session(replicas.replicas[0], first), "look", 0)
    finally:
        await runner.cleanup()


async def test_it_is_sent_again_unchanged() -> None:
    server = BusyServer(busy=1)
    assert (await _step(server, 10)).step_index == 1
    assert server.batches[0] == server.batches[1]


async def test_it_is_given_up_after_the_deadline() -> None:
    with pytest.raises(ServerProblemError, match="being replaced"):
        await _step(BusyServer(busy=10**6), 0.2)
