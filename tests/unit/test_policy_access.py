"""Which tokens open the policy server's routes, vLLM's own among them."""

from pathlib import Path

import httpx
import pytest

from services.policy_server.app import create_app
from services.policy_server.settings import PolicySettings
from shared.service import Scope

TOKENS = {scope: f"token-of-{scope}-0123456789" for scope in Scope}
GENERATE, WEIGHTS = frozenset({Scope.GENERATE}), frozenset({Scope.WEIGHTS})
PATHS = [
    ("POST", "/v1/generate", GENERATE),
    ("POST", "/v1/score", GENERATE),
    ("GET", "/v1/weights", GENERATE | WEIGHTS),
    ("POST", "/v1/weights", WEIGHTS),
    ("POST", "/v1/completions", GENERATE),
    ("POST", "/v1/chat/completions", GENERATE),
    ("GET", "/v1/models", GENERATE),
    ("POST", "/tokenize", GENERATE),
    ("POST", "/detokenize", GENERATE),
    ("GET", "/version", GENERATE),
]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> httpx.ASGITransport:
    """The app before its engine has started: whoever is let in is told that it is not ready."""
    monkeypatch.delenv("GAGPO_TOKEN", raising=False)
    for scope, token in TOKENS.items():
        monkeypatch.setenv(scope.variable, token)
    return httpx.ASGITransport(create_app(PolicySettings(model=Path("none"), max_body_bytes=2000)))


@pytest.mark.parametrize(("method", "path", "scopes"), PATHS)
async def test_a_path_is_opened_by_its_scopes_alone(
    app: httpx.ASGITransport, method: str, path: str, scopes: frozenset[Scope]
) -> None:
    async with httpx.AsyncClient(transport=app, base_url="http://policy") as client:

        async def status(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return (await client.request(method, path, headers=headers, json={})).status_code

        assert await status("") == 401
        assert await status("token-of-nobody-0123456789") == 401
        for scope, token in TOKENS.items():
            # An empty body is looked at only after the engine is found not to be ready, or is refused by itself.
            assert await status(token) in ((503, 422) if scope in scopes else (403,)), scope


@pytest.mark.parametrize("path", ["/pause", "/docs", "/v1", "/v1/load_lora_adapter", "//v1/weights", "/v1/weights/"])
async def test_a_path_that_does_not_exist_is_not_opened_by_less(app: httpx.ASGITransport, path: str) -> None:
    async with httpx.AsyncClient(transport=app, base_url="http://policy") as client:
        headers = {"authorization": f"Bearer {TOKENS[Scope.ENVIRONMENTS]}"}
        assert (await client.post(path, headers=headers)).status_code == 403


async def test_health_and_metrics_are_open(app: httpx.ASGITransport) -> None:
    async with httpx.AsyncClient(transport=app, base_url="http://policy") as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        metrics = await client.get("/metrics")
    assert 'gagpo_policy_http_requests_total{method="GET",route="/readyz",status="503"} 1.0' in metrics.text


async def test_a_body_beyond_the_limit_is_not_read(app: httpx.ASGITransport) -> None:
    async with httpx.AsyncClient(transport=app, base_url="http://policy") as client:
        headers = {"authorization": f"Bearer {TOKENS[Scope.GENERATE]}"}
        answer = await client.post("/v1/generate", headers=headers, content=b" " * 2001)
    assert (answer.status_code, answer.json()["type"]) == (413, "/problems/body-too-large")
