"""What goes wrong while playing, in plain words, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from services.trainer.dashboard.health_checks import ENV_SERVER, same_token, start_command
from services.trainer.dashboard.play_servers import EnvServerError
from shared.service import Scope


class WayOut(StrEnum):
    """A button below a trouble; its value is the button's text."""

    AGAIN = "Try again"
    """The very same once more."""
    ANEW = "Start over"
    """The same task from its beginning."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that went wrong."""

    title: str
    detail: str
    remedy: str = ""
    """A command, or what to set."""
    way_out: WayOut | None = None


def trouble(error: EnvServerError) -> Trouble:
    """What an env server's refusal, or its silence, means to a player."""
    match error.kind.removeprefix("/problems/"):
        case "unknown-session":
            gone = "It was closed, or nobody touched it for too long (GAGPO_ENV_SESSION_TTL_S, an hour by default)."
            return Trouble("The env server has forgotten this episode", gone, way_out=WayOut.ANEW)
        case "data-changed" | "episode-over" | "step-conflict":
            return Trouble(error.title, error.reason, way_out=WayOut.ANEW)
        case "deadline-exceeded":
            return Trouble("The environment took too long", error.reason, way_out=WayOut.AGAIN)
        case _:
            return _by_status(error)


def no_tasks(environment: str) -> Trouble:
    """An environment without any task to play."""
    remedy = "start the env server with the folder of the tasks: ALFWORLD_DATA, WEBSHOP_DATA, or the environment's own"
    return Trouble(f"{environment} has no tasks", "None of its splits has any.", remedy)


def _by_status(error: EnvServerError) -> Trouble:
    match error.status:
        case None:
            detail = f"{error.url}: {error.reason}."
            start = start_command(error.url, *ENV_SERVER)
            return Trouble("The env server does not answer", detail, start, WayOut.AGAIN)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return Trouble("The env server refuses this service's token", error.url, same_token(Scope.ENVIRONMENTS))
        case HTTPStatus.SERVICE_UNAVAILABLE:
            wait = f" It asks to wait {error.wait_s} s." if error.wait_s else ""
            return Trouble(error.title or "The env server is busy", error.reason + wait, way_out=WayOut.AGAIN)
        case HTTPStatus.NOT_FOUND | HTTPStatus.UNPROCESSABLE_ENTITY:
            return Trouble(error.title or "The env server does not know that", error.reason)
        case _:
            return Trouble(error.title or "The env server failed", error.reason, way_out=WayOut.AGAIN)
