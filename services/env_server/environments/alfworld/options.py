"""The options that a session of ALFWorld can be opened with."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.env_server.environments.base import EnvironmentDataError, InvalidOptionError
from shared.schemas.environment import InfoValue, OptionDescription

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


@dataclass(frozen=True, slots=True)
class Option:
    """What one option is called, means and may be."""

    name: str
    description: str
    default: str | int | bool
    choices: tuple[str, ...] | None = None

    def describe(self) -> OptionDescription:
        """As ``GET /v1/environments`` shows it."""
        choices: list[InfoValue] | None = None if self.choices is None else list(self.choices)
        return OptionDescription(name=self.name, description=self.description, default=self.default, choices=choices)

    def check(self, value: InfoValue) -> None:
        """Raises `InvalidOptionError` for a value that is not allowed."""
        allowed: str | None = None
        if self.choices is not None:
            if value not in self.choices:
                allowed = " or ".join(map(repr, self.choices))
        elif isinstance(self.default, bool):
            if not isinstance(value, bool):
                allowed = "true or false"
        elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
            allowed = "an integer from 0 on"
        if allowed is not None:
            raise InvalidOptionError(self.name, f"{self.name} = {value!r} is not allowed; it must be {allowed}")


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
        "optimal knows where everything is; searching looks in likely places first, as a policy must",
        "optimal",
        ("optimal", "searching"),
    ),
    Option("expert_seed", "decides among places of about the same likelihood, for expert_style = searching", 0),
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
    known = {option.name: option for option in OPTIONS}
    for name, value in given.items():
        if name not in known:
            raise InvalidOptionError(name, f"ALFWorld has no option {name!r}; it has {', '.join(known)}")
        known[name].check(value)
    values: dict[str, InfoValue] = {"engine": engine, **given}
    return AlfworldOptions(**values)  # type: ignore[arg-type]  # each was checked above
