"""The options that a session of ALFWorld can be opened with."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.env_server.environments.base import InvalidOptionError
from shared.schemas.environment import InfoValue, OptionDescription

ENGINE_VARIABLE = "GAGPO_ALFWORLD_ENGINE"


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
        ("native", "textworld"),
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


def parse_options(given: Mapping[str, InfoValue], environment: Mapping[str, str]) -> AlfworldOptions:
    """Check the options of a session. Raises `InvalidOptionError` naming the first bad one and what is allowed.

    ``environment`` are the process's variables; `ENGINE_VARIABLE` among them is the engine's default.
    """
    known = {option.name: option for option in OPTIONS}
    if configured := environment.get(ENGINE_VARIABLE):
        known["engine"].check(configured)
    values: dict[str, InfoValue] = {"engine": configured or "native", **given}
    for name, value in values.items():
        if name not in known:
            raise InvalidOptionError(name, f"ALFWorld has no option {name!r}; it has {', '.join(known)}")
        known[name].check(value)
    return AlfworldOptions(**values)  # type: ignore[arg-type]  # each was checked above
