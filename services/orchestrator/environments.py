"""The env servers, as the orchestrator sees them: open a group, step, close."""

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

from services.orchestrator.http import TRY_AGAIN, ReplicaSet, ServerProblemError, ServerUnavailableError
from services.orchestrator.knowledge import LOOK_TIMEOUT_S, Knowledge
from services.orchestrator.replicas import Replica
from shared.recipe import EnvironmentSettings
from shared.schemas.environment import (
    MAX_BATCH,
    EnvironmentDescription,
    EnvironmentList,
    Observation,
    Problem,
    SessionList,
    SessionRequest,
    SessionStep,
    StepBatch,
    StepBatchResult,
    StepResult,
)

logger = logging.getLogger(__name__)

_WINDOW_S = 0.002
_CLOSE_DEADLINE_S = 3.0
_ITEM_PAUSE_S = 0.5


class SetupError(RuntimeError):
    """The servers and the recipe do not fit together; the message says what to change."""


@dataclass(slots=True, eq=False)
class Session:
    """An open session and the replica that holds it: another one, once that is gone."""

    replica: Replica
    first: Observation

    @property
    def session_id(self) -> str:
        """Its id on every replica that shares the journal."""
        return self.first.session_id


@dataclass(frozen=True, slots=True)
class _Waiting:
    session: Session
    step: SessionStep
    result: "asyncio.Future[StepResult]"


class EnvironmentPool:
    """All env servers together. Steps of different sessions that come within 2 ms travel as one request."""

    def __init__(self, replicas: ReplicaSet) -> None:
        """``replicas`` has to be open while this is used."""
        self._replicas = replicas
        self._waiting: dict[Replica, list[_Waiting]] = defaultdict(list)
        self._sending: set[asyncio.Task[None]] = set()
        self._digests: dict[str, str] | None = None
        self._alike = Knowledge(self._has_same_data)

    async def leave(self) -> None:
        """Look at no more replicas."""
        await self._alike.close()

    async def describe(self) -> dict[str, EnvironmentDescription]:
        """Name → environment, as soon as one replica tells.

        Raises `SetupError` unless all that answer have the same tasks; one that comes later and has others is not used.
        """
        answer = await self._replicas.ask("GET", "/v1/environments")
        found = {entry.name: entry for entry in EnvironmentList.model_validate_json(answer.content).environments}
        self._digests = {name: entry.data_digest for name, entry in found.items()}
        await asyncio.gather(*(self._alike.look(replica) for replica in self._replicas.replicas))
        for replica in self._replicas.replicas:
            if self._alike.of(replica) is False:
                raise SetupError(_different(answer.replica.url, replica.url))
        return found

    async def _has_same_data(self, replica: Replica) -> bool:
        answer = await self._replicas.ask_only(replica, "/v1/environments", LOOK_TIMEOUT_S)
        found = EnvironmentList.model_validate_json(answer).environments
        same = {entry.name: entry.data_digest for entry in found} == self._digests
        if not same:
            logger.error("not used: %s", _different("others", replica.url), extra={"url": replica.url})
        return same

    def has_same_tasks(self, replica: Replica) -> bool | None:
        """Whether a replica has the tasks that the others have; None where that is not known by now."""
        return self._alike.of(replica)

    def _usable(self, replica: Replica) -> bool:
        """Sessions are opened only on replicas that are known to have the same tasks as the others."""
        if self._digests is None or self._alike.of(replica):
            return True
        self._alike.doubt(replica)
        return False

    async def open(
        self, settings: EnvironmentSettings, *, split: str, index: int | None, task_id: str | None, count: int
    ) -> list[Session]:
        """Open ``count`` sessions of one task: by ``split`` and ``index``, or by ``task_id``."""
        request = SessionRequest(
            environment=settings.name,
            task_id=task_id,
            split=split if task_id is None else None,
            index=index if task_id is None else None,
            count=count,
            max_steps=settings.max_steps,
            state_key=settings.state_key,
            true_state=True,
            options=settings.options,
        )
        answer = await self._replicas.ask(
            "POST",
            "/v1/sessions",
            request.model_dump_json(exclude_none=True).encode(),
            headers={"idempotency-key": secrets.token_urlsafe(16)},  # a try whose answer is lost leaves no group behind
            usable=self._usable,
        )
        return [Session(answer.replica, first) for first in SessionList.model_validate_json(answer.content).sessions]

    async def step(self, session: Session, action: str, step_index: int) -> StepResult:
        """Take one step; safe to repeat. Raises `ServerProblemError` for what the env server says about this step."""
        give_up = time.monotonic() + self._replicas.deadline_s
        while True:
            try:
                return await self._step_once(session, action, step_index)
            except ServerProblemError as error:
                # Within a batch the server refuses for now by item, not by HTTP status.
                for_now = error.problem is not None and error.problem.status in TRY_AGAIN
                if not for_now or time.monotonic() + _ITEM_PAUSE_S > give_up:
                    raise
            await asyncio.sleep(_ITEM_PAUSE_S)

    async def _step_once(self, session: Session, action: str, step_index: int) -> StepResult:
        loop = asyncio.get_running_loop()
        waiting = _Waiting(
            session,
            SessionStep.model_construct(session_id=session.session_id, action=action, step_index=step_index),
            loop.create_future(),
        )
        queue = self._waiting[session.replica]
        queue.append(waiting)
        if len(queue) == 1:
            loop.call_later(_WINDOW_S, self._flush, session.replica)
        return await waiting.result

    async def close(self, session: Session) -> None:
        """Forget a session. The server forgets idle ones by itself, so failing to is only logged."""
        path = f"/v1/sessions/{session.session_id}"
        try:
            async with asyncio.timeout(_CLOSE_DEADLINE_S):
                with suppress(ServerProblemError):  # it is gone already
                    await self._replicas.request("DELETE", path, first=session.replica)
        except (TimeoutError, ServerUnavailableError) as error:
            logger.warning("a session could not be closed: %s", error, extra={"session": session.session_id})

    def _flush(self, replica: Replica) -> None:
        waiting = self._waiting.pop(replica, [])
        for start in range(0, len(waiting), MAX_BATCH):
            sending = asyncio.create_task(self._send(replica, waiting[start : start + MAX_BATCH]))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send(self, replica: Replica, waiting: list[_Waiting]) -> None:
        """One request for all; every one of them gets its result or the error."""
        try:
            batch = StepBatch.model_construct(steps=[one.step for one in waiting])
            answer = await self._replicas.ask("POST", "/v1/steps", batch.model_dump_json().encode(), first=replica)
            results = StepBatchResult.model_validate_json(answer.content).results
            if len(results) != len(waiting):
                raise ServerProblemError(
                    f"{answer.replica.url} answered {len(waiting)} steps with {len(results)} results", None
                )
        except BaseException as error:
            for one in waiting:
                if not one.result.done():
                    one.result.set_exception(
                        error if isinstance(error, Exception) else ServerUnavailableError("cancelled")
                    )
            if not isinstance(error, Exception):
                raise
            return
        for one, result in zip(waiting, results, strict=True):
            one.session.replica = answer.replica  # who took over has the episode alive now
            if one.result.done():
                continue  # its episode was cancelled meanwhile
            if isinstance(result, Problem):
                where = f"session {one.step.session_id}, step {one.step.step_index}"
                one.result.set_exception(ServerProblemError(f"{where}: {result.type}: {result.detail}", result))
            else:
                one.result.set_result(result)


def _different(one: str, other: str) -> str:
    return (
        f"the env servers {one} and {other} have different environments or data (data_digest in "
        "GET /v1/environments): point all at the same data"
    )
