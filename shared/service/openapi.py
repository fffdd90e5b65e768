"""What the OpenAPI document of every service says: how errors are answered, and which tokens open what."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from shared.problems import PROBLEM_JSON
from shared.schemas.environment import Problem
from shared.service.auth import OPEN_PATHS, Access
from shared.service.tokens import Scope

SCHEME = "token"
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
_FRAMEWORK_ERROR = "HTTPValidationError"
_PROBLEM = {PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}


def document_problems(app: FastAPI) -> None:
    """Have the app's document say that a request which does not fit is answered with a problem document.

    FastAPI would name an error format of its own there, which no service ever answers.
    """
    documented = app.openapi

    def document() -> dict[str, Any]:
        schema = documented()  # FastAPI keeps what it made: the same object each time
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for item in schema.get("paths", {}).values():
            for method in _METHODS & item.keys():
                answers = item[method].get("responses", {})
                if _is_framework_error(answers.get("422")):
                    answers["422"] = {"description": "invalid-request: `faults` names each field.", "content": _PROBLEM}
                    schemas.setdefault(Problem.__name__, Problem.model_json_schema())
        for name in (_FRAMEWORK_ERROR, "ValidationError"):
            schemas.pop(name, None)
        return schema

    app.openapi = document  # type: ignore[method-assign]  # the way that FastAPI documents


def _is_framework_error(answer: dict[str, Any] | None) -> bool:
    schema = (answer or {}).get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref", "").endswith(f"/{_FRAMEWORK_ERROR}"))


def document_tokens(app: FastAPI, access: Sequence[Access]) -> None:
    """Have the app's document name the bearer scheme, and for every operation the scopes that open it.

    Scopes stand where OpenAPI 3.1 has the names of roles; several requirements are alternatives, any one will do.
    """
    documented = app.openapi

    def document() -> dict[str, Any]:
        schema = documented()  # FastAPI keeps what it made: the same object each time
        components = schema.setdefault("components", {})
        if "securitySchemes" not in components:
            components["securitySchemes"] = {SCHEME: _scheme()}
            components.setdefault("schemas", {}).setdefault(Problem.__name__, Problem.model_json_schema())
            for path, item in schema.get("paths", {}).items():
                for method in _METHODS & item.keys():
                    if path not in OPEN_PATHS:
                        _guard(item[method], _requirements(path, method.upper(), access))
        return schema

    app.openapi = document  # type: ignore[method-assign]  # the way that FastAPI documents


def _scheme() -> dict[str, str]:
    return {
        "type": "http",
        "scheme": "bearer",
        "description": "GAGPO_TOKEN opens everything, a token of a scope's own what is marked with that scope.",
    }


def _requirements(path: str, method: str, access: Sequence[Access]) -> list[dict[str, list[Scope]]]:
    for rule in access:
        if rule.covers(path, method):
            return [{SCHEME: [scope]} for scope in sorted(rule.scopes)]
    return [{SCHEME: sorted({scope for rule in access for scope in rule.scopes})}]


def _guard(operation: dict[str, Any], requirements: list[dict[str, list[Scope]]]) -> None:
    operation["security"] = requirements
    for status, kind in (
        ("401", "unauthorized: no token, or none of this server's."),
        ("403", "forbidden: the token lacks the scope."),
    ):
        operation.setdefault("responses", {})[status] = {"description": kind, "content": _PROBLEM}
