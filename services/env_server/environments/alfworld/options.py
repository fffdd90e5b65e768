"""The options that a session of ALFWorld can be opened with."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.env_server.environments.base import EnvironmentDataError
from services.env_server.environments.option import Option, check_options
from shared.schemas.environment import InfoValue

ENGINE_VARIABLE = "GAGPO_ALFWORLD_ENGINE"
ENGINES = ("native", "textworld")


@dataclass(frozen=True, slots=True)
class AlfworldOptions:
    """Checked options."""

    goal_style: str = "templated"
    human_goal: int = 0
    engine: str = "native"
    expert: bool = False
    expert_style: str = "optimal"
    expert_seed: int = 0


OPTIONS = (
    Option("goal_style", "who worded the goal: a template or a person", "templated", ("templated", "human")),
    Option("human_goal", "which of the task's human goals to show, for goal_style = human", 0),
    Option(
        "engine",
        f"native, or textworld for stock TextWorld (slow); {ENGINE_VARIABLE} sets the default",
        "native",
        ENGINES,
    ),
    Option("expert", "put expert_action and optimal_steps into info", False),
    Option(
        "expert_style",
        "optimal knows where everything is; searching looks in likely places first, as a policy must; wandering looks "
        "anywhere",
        "optimal",
        ("optimal", "searching", "wandering"),
    ),
    Option("expert_seed", "decides among places of about the same likelihood, for the others than optimal", 0),
)


def default_engine(environment: Mapping[str, str]) -> str:
    """The engine that `ENGINE_VARIABLE` among the process's variables asks for. Raises `EnvironmentDataError`."""
    engine = environment.get(ENGINE_VARIABLE) or "native"
    if engine not in ENGINES:
        raise EnvironmentDataError(f"{ENGINE_VARIABLE} = {engine!r} is not an engine; set it to {' or '.join(ENGINES)}")
    return engine


def parse_options(given: Mapping[str, InfoValue], engine: str) -> AlfworldOptions:
    """Check the options of a session, with ``engine`` where they name none.

    Raises `InvalidOptionError` naming the first bad one and what is allowed.
    """
    check_options("ALFWorld", OPTIONS, given)
    values: dict[str, InfoValue] = {"engine": engine, **given}
    return AlfworldOptions(**values)  # type: ignore[arg-type]  # each was checked above
