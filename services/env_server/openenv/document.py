"""What an OpenEnv server tells about itself, for one environment."""

from typing import Any

from services.env_server.openenv.messages import (
    OpenEnvAction,
    OpenEnvMetadata,
    OpenEnvObservation,
    OpenEnvSchemas,
    OpenEnvState,
)
from shared.schemas.environment import EnvironmentDescription

MOUNT = "/openenv/{environment}"


def metadata(described: EnvironmentDescription) -> OpenEnvMetadata:
    """The environment in words: what an action looks like and what a reset may ask for."""
    splits = ", ".join(f"{split} ({size} tasks)" for split, size in described.splits.items())
    options = "; ".join(f"{option.name}: {option.description}" for option in described.options)
    return OpenEnvMetadata(
        name=described.name,
        description=(
            f'step takes {{"action": "<text>"}}: {described.action_format}. reset takes seed, split with index, or '
            f"task_id; max_steps ({described.max_steps} by default) and options. Splits: {splits}; "
            f"{described.training_split} by default. Options: {options or 'none'}"
        ),
        version=described.versions.get("gagpo", "unknown"),
    )


def schemas() -> OpenEnvSchemas:
    """JSON Schemas of what a step takes, and of what step, reset and state tell."""
    return OpenEnvSchemas(
        action=OpenEnvAction.model_json_schema(),
        observation=OpenEnvObservation.model_json_schema(mode="serialization"),
        state=OpenEnvState.model_json_schema(mode="serialization"),
    )


def environment_document(document: dict[str, Any], environment: str) -> dict[str, Any]:
    """The part of the server's OpenAPI document that is one environment's, with the paths that OpenEnv knows."""
    paths = {
        path.removeprefix(MOUNT): {method: _without_environment(operation) for method, operation in item.items()}
        for path, item in document["paths"].items()
        if path.startswith(f"{MOUNT}/")
    }
    info = document["info"] | {"title": f"{environment}, as an OpenEnv server"}
    return document | {"info": info, "paths": paths, "servers": [{"url": MOUNT.format(environment=environment)}]}


def _without_environment(operation: dict[str, Any]) -> dict[str, Any]:
    kept = [parameter for parameter in operation.get("parameters", ()) if parameter["name"] != "environment"]
    return {name: value for name, value in operation.items() if name != "parameters"} | (
        {"parameters": kept} if kept else {}
    )
