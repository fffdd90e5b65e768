"""Every problem document that the env server answers with, in one place. ``docs/rest-api.md`` lists them."""

from collections.abc import Iterable

from services.env_server.worker_protocol import Fault
from shared.problems import ProblemError


def from_fault(fault: Fault) -> ProblemError:
    """The problem that a worker reported."""
    return ProblemError(fault.status, fault.kind, fault.title, fault.detail, extra=fault.extra)


def unknown_session(session_id: str) -> ProblemError:
    """No such session, or no longer."""
    detail = f"There is no session {session_id[:64]!r}: it was deleted, it expired, or it never was. Open another."
    return ProblemError(404, "unknown-session", "There is no such session", detail)


def unknown_environment(name: str, known: Iterable[str]) -> ProblemError:
    """No environment of that name is served."""
    detail = f"environment: {name[:64]!r} is not served here; there are: {', '.join(sorted(known))}."
    return ProblemError(404, "unknown-environment", "There is no such environment", detail)


def unknown_split(split: str, known: Iterable[str]) -> ProblemError:
    """The environment has no such split."""
    detail = f"split: {split[:64]!r} is none of the environment's; there are: {', '.join(sorted(known))}."
    return ProblemError(404, "unknown-split", "There is no such split", detail)


def unknown_index(index: int, split: str, size: int) -> ProblemError:
    """The split is shorter than that."""
    detail = f"index: {index} is past the end; split {split!r} has the tasks 0 to {size - 1}."
    if size == 0:
        detail = f"index: split {split!r} has no tasks."
    return ProblemError(404, "unknown-task", "There is no such task", detail)


def step_conflict(session_id: str, step_index: int, expected: int) -> ProblemError:
    """The index is not next, or was taken by another action."""
    if step_index < expected:
        why = f"step {step_index} was taken with another action"
    else:
        why = f"step {step_index} is not next"
    detail = f"step_index: {why}; session {session_id} is at step {expected}, as GET /v1/sessions/{session_id} tells."
    extra = {"expected_step_index": expected}
    return ProblemError(409, "step-conflict", "The step does not fit the session's history", detail, extra=extra)


def no_episode() -> ProblemError:
    """A client of OpenEnv that steps before it has reset."""
    return ProblemError(409, "no-episode", "There is no episode yet", "No episode is being played here: reset first.")


def at_capacity(limit: int, retry_after_s: int) -> ProblemError:
    """The server holds as many sessions as it may."""
    detail = (
        f"This server holds its {limit} sessions (GAGPO_ENV_MAX_SESSIONS). Delete sessions that are done, "
        "wait and try again, or add a replica."
    )
    return _later("at-capacity", "The server is full", detail, retry_after_s)


def overloaded(limit: int, retry_after_s: int) -> ProblemError:
    """Too much work is waiting."""
    detail = f"{limit} steps are waiting for workers (GAGPO_ENV_MAX_PENDING_ITEMS). Wait and send the same again."
    return _later("overloaded", "Too many steps are waiting", detail, retry_after_s)


def journal_unavailable(reason: str, retry_after_s: int) -> ProblemError:
    """Redis does not answer."""
    detail = f"The journal does not answer ({reason}). Send the same request again: a step is never taken twice."
    return _later("journal-unavailable", "The journal is away", detail, retry_after_s)


def worker_unavailable(retry_after_s: int) -> ProblemError:
    """No worker could do it, for a reason that may pass."""
    detail = "No worker could take this on. Send the same request again: a step is never taken twice."
    return _later("worker-unavailable", "No worker is ready", detail, retry_after_s)


def deadline(what: str) -> ProblemError:
    """A step or an opening took too long; its worker was killed."""
    detail = (
        f"{what} went past its deadline and was broken off (GAGPO_ENV_STEP_DEADLINE_S, GAGPO_ENV_OPEN_DEADLINE_S). "
        "The session is as it was before."
    )
    return ProblemError(504, "deadline-exceeded", "The environment took too long", detail)


def crashed(what: str) -> ProblemError:
    """A step or an opening took its worker down, twice."""
    detail = f"{what} ended its worker process each time it was tried. The session is as it was before."
    return ProblemError(500, "worker-crashed", "The environment took its process down", detail)


def data_changed(session_id: str, environment: str) -> ProblemError:
    """The session was opened on other task data than this server's."""
    detail = (
        f"Session {session_id} was opened on other data of {environment!r} than this server has, so it cannot be "
        "rebuilt here. Give all replicas the same data, and open another session."
    )
    return ProblemError(409, "data-changed", "The environment's data is not the session's", detail)


def body_too_large(limit: int) -> ProblemError:
    """The body is larger than the server reads."""
    detail = f"The body is larger than {limit} bytes (GAGPO_ENV_MAX_BODY_BYTES). Send fewer steps at once."
    return ProblemError(413, "body-too-large", "The body is too large", detail)


def unsupported_media_type(given: str, read: str = "application/json or application/msgpack") -> ProblemError:
    """The body is in a format that is not ``read``."""
    detail = f"Content-Type: {given[:64]!r} is not read here; send {read}."
    return ProblemError(415, "unsupported-media-type", "The body's format is not read here", detail)


def _later(kind: str, title: str, detail: str, retry_after_s: int) -> ProblemError:
    return ProblemError(503, kind, title, detail, headers={"Retry-After": str(retry_after_s)})
