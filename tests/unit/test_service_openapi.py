"""The OpenAPI document of a service with tokens says which operation takes which."""

from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from shared.service import Access, Scope, Tokens, install_service

ACCESS = (
    Access("/v1/weights", {Scope.WEIGHTS, Scope.GENERATE}, methods={"GET"}),
    Access("/v1/weights", {Scope.WEIGHTS}),
)


def document(variables: dict[str, str]) -> dict[str, Any]:
    """The document of an app that has an operation of each kind."""
    app = FastAPI()

    @app.get("/healthz")
    @app.get("/v1/weights")
    @app.post("/v1/weights/{version}")
    @app.get("/unnamed")
    async def anything() -> None: ...

    @app.get("/numbered/{number}")
    async def numbered(number: int) -> None: ...

    tokens = Tokens.from_environment(variables)
    install_service(app, service="small", tokens=tokens, access=ACCESS, registry=CollectorRegistry())
    assert app.openapi() == app.openapi()  # asking again adds nothing
    return app.openapi()


def test_alternatives_are_told_apart_from_scopes_needed_together() -> None:
    found = document({"GAGPO_TOKEN": "everything-0123456789"})
    assert found["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    paths = found["paths"]
    assert "security" not in paths["/healthz"]["get"]
    assert paths["/v1/weights"]["get"]["security"] == [{"token": ["generate"]}, {"token": ["weights"]}]
    assert paths["/v1/weights/{version}"]["post"]["security"] == [{"token": ["weights"]}]
    assert paths["/unnamed"]["get"]["security"] == [
        {"token": ["generate", "weights"]}
    ]  # no rule names it: it takes all


def test_a_refusal_is_documented_as_the_problem_that_it_is() -> None:
    found = document({"GAGPO_TOKEN_WEIGHTS": "weights-0123456789"})
    responses = found["paths"]["/v1/weights"]["get"]["responses"]
    for status in ("401", "403"):
        schema = responses[status]["content"]["application/problem+json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}
    assert {"type", "status", "detail"} <= found["components"]["schemas"]["Problem"]["properties"].keys()
    assert "401" not in found["paths"]["/healthz"]["get"]["responses"]


def test_without_tokens_the_document_asks_for_none() -> None:
    found = document({})
    assert "securitySchemes" not in found.get("components", {})
    assert all("security" not in operation for item in found["paths"].values() for operation in item.values())


def test_a_request_that_does_not_fit_is_documented_as_the_problem_that_answers_it() -> None:
    found = document({})
    content = found["paths"]["/numbered/{number}"]["get"]["responses"]["422"]["content"]
    assert content == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert "detail" in found["components"]["schemas"]["Problem"]["properties"]
    assert not {"HTTPValidationError", "ValidationError"} & found["components"]["schemas"].keys()
