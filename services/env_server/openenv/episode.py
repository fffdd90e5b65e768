"""Episodes of OpenEnv's clients as sessions of this server."""

from dataclasses import dataclass

import msgspec

from services.env_server import faults
from services.env_server.openenv.messages import OpenEnvAction, OpenEnvReset, OpenEnvState
from services.env_server.operations import EnvServer
from services.env_server.step_run import Step, encoded, run_steps
from shared.problems import ProblemError


@dataclass(frozen=True, slots=True)
class Turn:
    """What a reset or a step led to."""

    session_id: str
    next_index: int
    content: bytes
    """An `OpenEnvResult` as JSON."""


async def open_episode(server: EnvServer, environment: str, reset: OpenEnvReset, key: str | None = None) -> Turn:
    """Open a session; ``key`` is its idempotency key. Raises a `ProblemError`."""
    request = reset.request(server.catalogue.description(environment))
    (fragment,) = await server.sessions.open(request, "json", key)
    return _turn(fragment)


async def take_step(server: EnvServer, session_id: str, action: OpenEnvAction) -> Turn:
    """Take a step of a session, its next one where the action has no index. Raises a `ProblemError`."""
    index = action.step_index
    if index is None:
        index = (await server.sessions.state(session_id)).history_length
    step = Step(session_id, action.action, index)
    await run_steps(server.sessions, [step], "json")
    if isinstance(step.answer, ProblemError):
        raise step.answer
    return _turn(encoded(step, "json"))


async def session_state(server: EnvServer, session_id: str, episode_id: str) -> OpenEnvState:
    """A session as OpenEnv's state tells it. Raises a `ProblemError`."""
    fields = msgspec.json.decode(await server.state(session_id, "json"))
    return OpenEnvState(
        episode_id=episode_id,
        step_count=fields["history_length"],
        session_id=session_id,
        task_id=fields["task_id"],
        terminated=fields["terminated"],
        truncated=fields["truncated"],
    )


class ClientEpisode:
    """The one episode that a connected client plays at a time. A reset ends it and opens another session."""

    def __init__(self, server: EnvServer, environment: str) -> None:
        """No session until the first reset."""
        self._server = server
        self._environment = environment
        self._session_id: str | None = None
        self._episode_id = ""
        self._next_index = 0

    async def reset(self, reset: OpenEnvReset) -> bytes:
        """Open another session, in the place of the one before: a full server still lets its clients go on."""
        reset.request(self._server.catalogue.description(self._environment))  # refused before anything is lost
        await self.close()
        turn = await open_episode(self._server, self._environment, reset)
        self._session_id, self._next_index = turn.session_id, turn.next_index
        self._episode_id = reset.episode_id or turn.session_id
        return turn.content

    async def step(self, action: OpenEnvAction) -> bytes:
        """Take a step. Raises ``no-episode`` before the first reset.

        Without an index it is the step after the last one whose result was told: a client that sends a step again,
        since its result was lost to an error, does not take it twice.
        """
        if self._session_id is None:
            raise faults.no_episode()
        if action.step_index is None:
            action = action.model_copy(update={"step_index": self._next_index})
        try:
            turn = await take_step(self._server, self._session_id, action)
        except ProblemError as problem:
            expected = problem.extra.get("expected_step_index")
            if isinstance(expected, int):
                self._next_index = expected  # a step whose result was lost, and then another action in its place
            raise
        self._next_index = turn.next_index
        return turn.content

    async def state(self) -> OpenEnvState:
        """The episode's state; an empty one before the first reset."""
        if self._session_id is None:
            return OpenEnvState()
        return await session_state(self._server, self._session_id, self._episode_id)

    async def close(self) -> None:
        """Let go of the session. One that cannot be deleted now goes by itself when its time to live is over."""
        session_id, self._session_id = self._session_id, None
        if session_id is not None:
            try:
                await self._server.delete(session_id)
            except ProblemError as problem:
                if problem.status not in (404, 503):  # gone already, or the journal is away
                    raise


def _turn(fragment: bytes) -> Turn:
    """An observation or step result of the REST API in OpenEnv's envelope."""
    seen = msgspec.json.decode(fragment)
    reward = seen.pop("reward", None)
    seen.setdefault("terminated", False)
    seen.setdefault("truncated", False)
    done = seen["terminated"] or seen["truncated"]
    content = msgspec.json.encode({"observation": seen, "reward": reward, "done": done})
    return Turn(seen["session_id"], seen["step_index"], content)
