"""The options of an environment: described for clients, and checked when a session is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.env_server.environments.base import InvalidOptionError
from shared.schemas.environment import InfoValue, OptionDescription


@dataclass(frozen=True, slots=True)
class Option:
    """What one option is called, means and may be."""

    name: str
    description: str
    default: str | int | float | bool
    choices: tuple[str, ...] | None = None
    at_most: float | None = None
    """For a number: the largest that is allowed."""

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
        else:
            number = (int, float) if isinstance(self.default, float) else int
            if not isinstance(value, number) or isinstance(value, bool) or not 0 <= value <= (self.at_most or value):
                kind = "a number" if isinstance(self.default, float) else "an integer"
                allowed = f"{kind} from 0 " + ("on" if self.at_most is None else f"to {self.at_most:g}")
        if allowed is not None:
            raise InvalidOptionError(self.name, f"{self.name} = {value!r} is not allowed; it must be {allowed}")


def check_options(environment: str, options: Sequence[Option], given: Mapping[str, InfoValue]) -> None:
    """Check the options of a session. Raises `InvalidOptionError` naming the first bad one and what is allowed."""
    known = {option.name: option for option in options}
    for name, value in given.items():
        if name not in known:
            raise InvalidOptionError(name, f"{environment} has no option {name!r}; it has {', '.join(known)}")
        known[name].check(value)
