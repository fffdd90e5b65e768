"""What a client can ask for, from encoded body to encoded answer: the same over HTTP and over the WebSocket."""

from dataclasses import dataclass

import msgspec

from services.env_server.catalogue import ServedCatalogue
from services.env_server.journal import Journal
from services.env_server.metrics import EnvServerMetrics
from services.env_server.sessions import SessionTable, transcode
from services.env_server.settings import EnvServerSettings
from services.env_server.step_run import encoded, run_steps
from services.env_server.supervision import Supervisor
from services.env_server.wire import join_list, parse_batch, parse_session_request, parse_step
from services.env_server.worker_pool import WorkerPool
from services.env_server.worker_protocol import Encoding
from shared.problems import ProblemError


@dataclass(frozen=True, slots=True)
class EnvServer:
    """The parts of a running server, as the routes use them."""

    settings: EnvServerSettings
    pool: WorkerPool
    journal: Journal
    catalogue: ServedCatalogue
    sessions: SessionTable
    metrics: EnvServerMetrics
    supervisor: Supervisor

    async def open(self, body: bytes, given: Encoding, wanted: Encoding, key: str | None) -> bytes:
        """``POST /v1/sessions``: a `SessionRequest` to a `SessionList`; ``key`` is the idempotency key."""
        fragments = await self.sessions.open(parse_session_request(body, given), wanted, key)
        return join_list("sessions", fragments, wanted)

    async def step(self, session_id: str, body: bytes, given: Encoding, wanted: Encoding) -> bytes:
        """``POST /v1/sessions/{id}/step``: a `StepRequest` to a `StepResult`."""
        step = parse_step(body, given, session_id)
        await run_steps(self.sessions, [step], wanted)
        if isinstance(step.answer, ProblemError):
            raise step.answer
        return encoded(step, wanted)

    async def steps(self, body: bytes, given: Encoding, wanted: Encoding) -> bytes:
        """``POST /v1/steps``: a `StepBatch` to a `StepBatchResult`."""
        steps = parse_batch(body, given)
        await run_steps(self.sessions, steps, wanted)
        return join_list("results", [encoded(step, wanted) for step in steps], wanted)

    async def state(self, session_id: str, wanted: Encoding) -> bytes:
        """``GET /v1/sessions/{id}``: a `SessionState`."""
        state = await self.sessions.state(session_id)
        fields = msgspec.json.decode(transcode(state.fragment, state.encoding, "json"))
        fields.pop("reward", None)
        fields |= {
            "history_length": state.history_length,
            "expires_in_s": state.expires_in_s,
            "terminated": state.terminated,
            "truncated": state.truncated,
        }
        return msgspec.json.encode(fields) if wanted == "json" else msgspec.msgpack.encode(fields)

    async def delete(self, session_id: str) -> None:
        """``DELETE /v1/sessions/{id}``."""
        await self.sessions.delete(session_id)
