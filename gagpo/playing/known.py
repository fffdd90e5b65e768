"""Which environments an env server of this installation would have, before one is started."""

import os
from collections.abc import Mapping
from importlib.metadata import entry_points

from pydantic import TypeAdapter, ValidationError

_ENTRY_POINT_GROUP = "gagpo.environments"
_VARIABLE = "GAGPO_ENV_ENVIRONMENTS"


class UnknownEnvironmentError(Exception):
    """No environment has that name here; the message lists those there are."""


def check_known(environment: str, variables: Mapping[str, str] = os.environ) -> None:
    """Raises `UnknownEnvironmentError` for one that is neither installed nor named by ``GAGPO_ENV_ENVIRONMENTS``."""
    try:
        extra = TypeAdapter(dict[str, str]).validate_json(variables.get(_VARIABLE) or "{}")
    except ValidationError as error:
        raise UnknownEnvironmentError(f"{_VARIABLE}: must be a JSON object of names and module:Class") from error
    known = sorted({point.name for point in entry_points(group=_ENTRY_POINT_GROUP)} | extra.keys())
    if environment not in known:
        raise UnknownEnvironmentError(
            f"environment = {environment!r}: there is {', '.join(known) or 'none'}. Play another server's with "
            f"--server URL, or register one by an entry point in the group {_ENTRY_POINT_GROUP} or in {_VARIABLE}."
        )
