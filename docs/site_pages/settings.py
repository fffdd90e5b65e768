"""The reference of the services' settings: every variable, from the pydantic models."""

from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from services.env_server.settings import EnvServerSettings
from services.orchestrator.settings import OrchestratorSettings
from services.policy_server.settings import PolicySettings
from services.trainer.server.settings import TrainerSettings
from site_pages.markdown import code, page
from site_pages.schemas import fields_table, model_schema

_INTRODUCTION = """Each service reads its settings from the environment when it starts, and refuses to start with a
wrong one. Lists and tables are JSON. Tokens are on the page about [security](../security.md), what `docker compose`
passes on is in [.env.example](../../.env.example)."""

_SERVICES: tuple[tuple[str, str, type[BaseSettings]], ...] = (
    ("Env server", "python -m services.env_server", EnvServerSettings),
    ("Policy server", "python -m services.policy_server", PolicySettings),
    ("Orchestrator", "python -m services.orchestrator", OrchestratorSettings),
    ("Trainer service", "python -m services.trainer.server", TrainerSettings),
)


def settings_page() -> str:
    """The page: a table for each service."""
    parts = [_INTRODUCTION]
    for title, command, model in _SERVICES:
        parts += [f"## {title}", f"Started by {code(command)}. {model.__doc__ or ''}", _variables(model)]
    return page("Settings of the services", *parts)


def _variables(model: type[BaseSettings]) -> str:
    schema, definitions = model_schema(model)
    prefix = model.model_config.get("env_prefix", "")
    # A schema names a field by its first alias, which is its variable already.
    variables = {first_alias(name, field): variable(prefix, name, field) for name, field in model.model_fields.items()}
    return fields_table(schema, definitions, code, names=lambda name: variables[name], head="variable")


def first_alias(name: str, field: FieldInfo) -> str:
    """What the model's schema calls a field."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else name


def variable(prefix: str, name: str, field: FieldInfo) -> str:
    """The environment variable that a field is read from."""
    return f"{prefix}{name}".upper() if field.validation_alias is None else first_alias(name, field)
