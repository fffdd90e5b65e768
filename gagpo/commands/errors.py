"""The one place where the command line turns expected errors into a message and an exit code."""

import contextlib
from collections.abc import Iterator

import typer
from rich.console import Console

from gagpo.client import JobError
from gagpo.comparing.errors import StudyError
from gagpo.environment_client import EnvironmentServerError
from gagpo.evaluating.errors import EvaluationError
from gagpo.plan import PlanError
from gagpo.playing import UnknownEnvironmentError
from gagpo.ports import PortTakenError
from gagpo.redis_server import RedisServerError
from gagpo.stack import ServiceDiedError
from gagpo.training.memory import ModelTooLargeError
from gagpo.training.run_folder import RunFolderError
from gagpo.training.tasks import TaskDataError
from shared.buffer import EvictionPolicyError
from shared.recipe import RecipeError
from shared.service import TokenError
from shared.service.listening import ListenError

EXPECTED = (
    EnvironmentServerError,
    EvaluationError,
    EvictionPolicyError,
    JobError,
    ListenError,
    ModelTooLargeError,
    PlanError,
    PortTakenError,
    RecipeError,
    RedisServerError,
    RunFolderError,
    ServiceDiedError,
    StudyError,
    TaskDataError,
    TokenError,
    UnknownEnvironmentError,
)
"""Errors whose message says what to do; a stack trace would only hide it."""

_INTERRUPTED = 130

_stderr = Console(stderr=True, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def plain_errors(after_interrupt: str) -> Iterator[None]:
    """Print an expected error and exit with 1; on Ctrl-C print ``after_interrupt`` and exit with 130."""
    try:
        yield
    except EXPECTED as error:
        _stderr.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupt:
        _stderr.print(after_interrupt, markup=False)
        raise typer.Exit(_INTERRUPTED) from interrupt
