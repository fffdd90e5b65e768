"""The OpenAPI document tells the truth: schemathesis makes up requests from it and checks the answers against it."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode

from tests.processes import ServiceProcess, start_env_server

BOUNDS = {"GAGPO_ENV_STEP_DEADLINE_S": "2", "GAGPO_ENV_MAX_SESSIONS": "100000"}


@pytest.fixture(scope="module")
def server() -> Iterator[ServiceProcess]:
    with start_env_server(**BOUNDS) as service:
        yield service


OPERATIONS = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/environments"),
    ("GET", "/v1/environments/{environment}/tasks"),
    ("POST", "/v1/sessions"),
    ("POST", "/v1/sessions/{session_id}/step"),
    ("POST", "/v1/steps"),
    ("GET", "/v1/sessions/{session_id}"),
    ("DELETE", "/v1/sessions/{session_id}"),
    ("POST", "/openenv/{environment}/reset"),
    ("POST", "/openenv/{environment}/step"),
    ("GET", "/openenv/{environment}/state"),
    ("GET", "/openenv/{environment}/metadata"),
    ("GET", "/openenv/{environment}/schema"),
    ("GET", "/openenv/{environment}/health"),
]


# The others take nothing that could be wrong: a path parameter is any string.
CHECKED_INPUT = [
    ("GET", "/v1/environments/{environment}/tasks"),
    ("POST", "/v1/sessions"),
    ("POST", "/v1/sessions/{session_id}/step"),
    ("POST", "/v1/steps"),
    ("POST", "/openenv/{environment}/reset"),
]


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((*operation, GenerationMode.POSITIVE) for operation in OPERATIONS),
        *((*operation, GenerationMode.NEGATIVE) for operation in CHECKED_INPUT),
    ],
)
def test_every_answer_fits_the_document(server: ServiceProcess, method: str, path: str, mode: GenerationMode) -> None:
    """Also: what the document forbids is refused, what it allows is not, and nothing is ever a 5xx."""
    operation = schemathesis.openapi.from_url(f"{server.url}/openapi.json")[path][method]
    # Else it would hardly ever be one that is served; but which options a reset may name is for the environment to say.
    served = {"environment": "maze"} if path.startswith("/openenv/") and "reset" not in path else {}

    @settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: schemathesis.Case) -> None:
        case.path_parameters.update(served)
        case.call_and_validate(timeout=30)

    call()


def test_the_document_has_exactly_these_operations(server: ServiceProcess) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    assert {(method.upper(), path) for path, item in paths.items() for method in item} == set(OPERATIONS)


def test_examples_are_valid_by_their_own_models(server: ServiceProcess) -> None:
    from services.env_server.openenv import messages as openenv
    from services.env_server.routes import examples
    from shared.schemas import environment as messages

    pairs = [
        (messages.SessionRequest, examples.SESSION_REQUEST),
        (messages.StepRequest, examples.STEP_REQUEST),
        (messages.StepBatch, examples.STEP_BATCH),
        (messages.StepBatchResult, examples.STEP_BATCH_RESULT),
        (messages.StepResult, examples.STEP_RESULT),
        (messages.SessionState, examples.SESSION_STATE),
        (messages.Problem, examples.PROBLEM),
        (openenv.OpenEnvReset, examples.OPENENV_RESET),
        (openenv.OpenEnvResult, examples.OPENENV_OPENED),
        (openenv.OpenEnvStep, examples.OPENENV_STEP),
        (openenv.OpenEnvResult, examples.OPENENV_STEPPED),
    ]
    for model, example in pairs:
        model.model_validate(example)


def test_every_route_documents_its_problems_and_bodies(server: ServiceProcess) -> None:
    document = httpx.get(f"{server.url}/openapi.json").json()
    names = set(document["components"]["schemas"])
    assert {"SessionRequest", "StepRequest", "StepBatch", "StepBatchResult", "StepResult", "Problem"} <= names
    assert "HTTPValidationError" not in names
    for path, item in document["paths"].items():
        for method, operation in item.items():
            problems = [
                r for r in operation["responses"].values() if "application/problem+json" in r.get("content", {})
            ]
            if path.startswith("/v1/") and path != "/v1/environments":
                assert problems, (method, path)
            if method == "post":
                for content in operation["requestBody"]["content"].values():
                    assert content["schema"]["$ref"].rpartition("/")[2] in names
                    assert content["example"]
