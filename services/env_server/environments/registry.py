"""Which environments there are: those of the entry-point group ``gagpo.environments``, and those of the settings."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points

from services.env_server.environments.base import EnvironmentFamily

ENTRY_POINT_GROUP = "gagpo.environments"


class RegistryError(Exception):
    """An environment that is asked for does not exist or cannot be loaded; the message says which and why."""


def registered(extra: Mapping[str, str], serve: Sequence[str] | None) -> dict[str, str]:
    """The environments to serve, name → ``module:Class``; ``extra`` wins over an entry point of the same name.

    Raises `RegistryError` when ``serve`` names one that is not registered, or when nothing is.
    """
    known = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)} | dict(extra)
    wanted = sorted(known) if serve is None else list(dict.fromkeys(serve))
    missing = [name for name in wanted if name not in known]
    if missing:
        raise RegistryError(
            f"no environment is registered as {', '.join(missing)}; there are: {', '.join(sorted(known)) or 'none'}. "
            f"Register one by an entry point in the group {ENTRY_POINT_GROUP!r} or in GAGPO_ENV_ENVIRONMENTS."
        )
    if not wanted:
        raise RegistryError(f"no environment is registered in the entry-point group {ENTRY_POINT_GROUP!r}")
    return {name: known[name] for name in wanted}


def load_family(name: str, reference: str) -> EnvironmentFamily:
    """Import ``module:Class`` and make an instance. Raises `RegistryError`, or `EnvironmentDataError` of its own."""
    module_name, _, class_name = reference.partition(":")
    if not module_name or not class_name:
        raise RegistryError(f"environment {name!r}: {reference!r} is not of the form module:Class")
    try:
        family_class = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise RegistryError(f"environment {name!r}: cannot load {reference!r}: {error}") from error
    family: EnvironmentFamily = family_class()
    return family
