"""What the OpenAPI document of a service that takes tokens says about them."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI

from shared.problems import PROBLEM_JSON
from shared.schemas.environment import Problem
from shared.service.auth import OPEN_PATHS, Access
from shared.service.tokens import Scope

SCHEME = "token"
_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})


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
    content = {PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}
    for status, kind in (
        ("401", "unauthorized: no token, or none of this server's."),
        ("403", "forbidden: the token lacks the scope."),
    ):
        operation.setdefault("responses", {})[status] = {"description": kind, "content": content}
