"""The OpenAPI document, with the models of the bodies that the hot routes read and write by themselves."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from services.env_server.openenv.messages import OpenEnvReset, OpenEnvResult, OpenEnvStep
from shared.schemas.environment import (
    Problem,
    SessionList,
    SessionRequest,
    SessionState,
    StepBatch,
    StepBatchResult,
    StepRequest,
    StepResult,
)

_BODIES = (SessionRequest, StepRequest, StepBatch, OpenEnvReset, OpenEnvStep)
_ANSWERS = (SessionList, StepResult, StepBatchResult, SessionState, OpenEnvResult, Problem)


def install_openapi(app: FastAPI) -> None:
    """Serve a document that also has the models which FastAPI does not see in the routes' signatures."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _, definitions = models_json_schema(
                [*((model, "validation") for model in _BODIES), *((model, "serialization") for model in _ANSWERS)],
                ref_template="#/components/schemas/{model}",
            )
            components = schema.setdefault("components", {}).setdefault("schemas", {})
            components.update(definitions["$defs"])
            _name_one_task(components[SessionRequest.__name__])
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the way that FastAPI documents


def _name_one_task(session_request: dict[str, Any]) -> None:
    """Say in JSON Schema what the model's validator checks: a task is named in exactly one way."""
    null = {"type": "null"}
    absent = dict.fromkeys(("task_id", "split", "index", "seed"), null)

    def way(*names: str) -> dict[str, Any]:
        given = {name: {"not": null} for name in names}
        return {"required": list(names), "properties": absent | given}

    session_request["oneOf"] = [way("task_id"), way("split", "index"), way("split", "seed")]
