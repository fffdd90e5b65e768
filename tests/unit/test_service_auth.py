"""Tokens open what they are for, and nothing else; what is refused says how to be let in."""

import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from shared.service import Access, Scope, TokenError, Tokens, authorization, client_token, install_service
from shared.service.tokens import without_tokens

ALL = "everything-0123456789"
ENVIRONMENTS = "environments-0123456789"
WEIGHTS = "weights-0123456789"
TOKENS = {"GAGPO_TOKEN": ALL, "GAGPO_TOKEN_ENVIRONMENTS": ENVIRONMENTS, "GAGPO_TOKEN_WEIGHTS": WEIGHTS}
ACCESS = (
    Access("/v1/weights", {Scope.GENERATE, Scope.WEIGHTS}, methods={"GET"}),
    Access("/v1/weights", {Scope.WEIGHTS}),
    Access("/v1", {Scope.ENVIRONMENTS}),
)


def small_app(variables: dict[str, str], access: Sequence[Access] = ACCESS, limit: int | None = 1000) -> FastAPI:
    """An app with a path of each kind."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def anything(request: Request) -> dict[str, int]:
        return {"read": len(await request.body())}

    @app.websocket("/v1/ws")
    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("in")
        await websocket.close()

    install_service(
        app,
        service="small",
        tokens=Tokens.from_environment(variables),
        access=access,
        registry=CollectorRegistry(),
        max_body_bytes=limit,
    )
    return app


@asynccontextmanager
async def asking(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app in this process."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://small") as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "token", "status"),
    [
        ("GET", "/v1/things", ALL, 200),
        ("GET", "/v1/things", ENVIRONMENTS, 200),
        ("GET", "/v1/things", WEIGHTS, 403),
        ("GET", "/v1/things", ALL + "x", 401),
        ("GET", "/v1/things", ALL[:-1], 401),
        ("GET", "/v1/things", "", 401),
        ("GET", "/v1/weights", WEIGHTS, 200),
        ("GET", "/v1/weights", ENVIRONMENTS, 403),
        ("POST", "/v1/weights", WEIGHTS, 200),
        ("POST", "/v1/weights", ENVIRONMENTS, 403),
        ("POST", "/v1/weights/deeper", ENVIRONMENTS, 403),
        ("POST", "/v1/weightsandmore", ENVIRONMENTS, 200),
        ("GET", "/docs", ENVIRONMENTS, 403),  # no rule names it
        ("GET", "/v1x", ENVIRONMENTS, 403),
        ("GET", "//v1/things", ENVIRONMENTS, 403),
        ("GET", "/docs", ALL, 200),
        ("GET", "/healthz", None, 200),
        ("GET", "/readyz", None, 200),
        ("GET", "/metrics", None, 200),
        ("GET", "/metrics/", None, 401),
        ("GET", "/v1/things", None, 401),
    ],
)
async def test_a_token_opens_its_scope(method: str, path: str, token: str | None, status: int) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with asking(small_app(TOKENS)) as client:
        answer = await client.request(method, path, headers=headers)
    assert answer.status_code == status
    if status >= 400:
        document = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert document["type"] == {401: "/problems/unauthorized", 403: "/problems/forbidden"}[status]
        assert document["request_id"] == answer.headers["x-request-id"]
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert token in (None, "") or token not in answer.text


@pytest.mark.parametrize(
    "header", [ALL, f"Basic {ALL}", f"Token {ALL}", "Bearer", "Bearer ", f"Bearer {ALL} {ALL}", "Bearer \xe9\xe9"]
)
async def test_other_authorization_is_not_a_token(header: str) -> None:
    async with asking(small_app(TOKENS)) as client:
        answer = await client.get("/v1/things", headers={"authorization": header.encode("latin-1")})
    assert answer.status_code == 401


async def test_the_scheme_is_written_in_any_case_and_given_once() -> None:
    async with asking(small_app(TOKENS)) as client:
        assert (await client.get("/v1/x", headers={"authorization": f"bEARER {ALL}"})).status_code == 200
        twice = [("authorization", f"Bearer {ALL}"), ("authorization", f"Bearer {ALL}")]
        assert (await client.get("/v1/x", headers=twice)).status_code == 401


async def test_without_a_token_everybody_on_this_machine_is_let_in() -> None:
    async with asking(small_app({"GAGPO_TOKEN_JOBS": ALL})) as client:  # opens none of this service's scopes
        assert (await client.get("/v1/things")).status_code == 200


async def test_a_scope_without_a_token_is_shut_once_another_has_one() -> None:
    async with asking(small_app({"GAGPO_TOKEN_WEIGHTS": WEIGHTS})) as client:
        assert (await client.get("/v1/things")).status_code == 401
        assert (await client.get("/v1/things", headers={"authorization": f"Bearer {WEIGHTS}"})).status_code == 403


def test_a_socket_needs_the_token_too() -> None:
    client = TestClient(small_app(TOKENS))
    with client.websocket_connect("/v1/ws", headers={"authorization": f"Bearer {ENVIRONMENTS}"}) as socket:
        assert socket.receive_text() == "in"
    for headers in ({}, {"authorization": f"Bearer {WEIGHTS}"}, {"authorization": "Bearer wrong-wrong-wrong-wrong"}):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("/v1/ws", headers=headers),
        ):
            raise AssertionError("let in")


async def test_every_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens.from_environment(TOKENS)
    seen: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def spying(known: bytes, given: bytes) -> bool:
        seen.append((known, given))
        return compare(known, given)

    monkeypatch.setattr(hmac, "compare_digest", spying)
    assert tokens.scopes_of(ALL.encode()) == set(Scope)
    assert len(seen) == len(TOKENS)  # also those after the one that fits
    assert {len(side) for pair in seen for side in pair} == {32}  # whatever the lengths of the tokens


@pytest.mark.parametrize(("value", "says"), [("short", "at least 16"), ("spaces in the token", "characters")])
def test_a_poor_token_is_refused_by_name_and_never_shown(value: str, says: str) -> None:
    for name in ("GAGPO_TOKEN", "GAGPO_TOKEN_WEIGHTS"):
        with pytest.raises(TokenError, match=says) as caught:
            Tokens.from_environment({name: value})
        assert f"{name} " in str(caught.value)
        assert value not in str(caught.value)


def test_an_empty_variable_is_no_token() -> None:
    tokens = Tokens.from_environment({"GAGPO_TOKEN": "", "GAGPO_TOKEN_JOBS": "  "})
    assert not any(tokens.open(scope) for scope in Scope)


def test_one_token_in_two_variables_opens_both() -> None:
    tokens = Tokens.from_environment({"GAGPO_TOKEN_JOBS": ALL, "GAGPO_TOKEN_WEIGHTS": ALL})
    assert tokens.scopes_of(ALL.encode()) == {Scope.JOBS, Scope.WEIGHTS}


def test_tokens_are_not_kept_in_the_clear() -> None:
    tokens = Tokens.from_environment(TOKENS)
    assert ALL not in repr(vars(tokens))


def test_a_client_shows_the_token_of_its_scope() -> None:
    assert client_token(Scope.WEIGHTS, TOKENS) == WEIGHTS
    assert client_token(Scope.JOBS, TOKENS) == ALL
    assert authorization(Scope.GENERATE, TOKENS) == {"authorization": f"Bearer {ALL}"}
    assert authorization(Scope.GENERATE, {}) == {}
    assert without_tokens({**TOKENS, "PATH": "/bin"}) == {"PATH": "/bin"}


async def _chunks(total: int) -> AsyncIterator[bytes]:
    for _ in range(total // 100):
        yield b"x" * 100


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1100, 413)])
async def test_a_large_body_is_refused(size: int, status: int) -> None:
    async with asking(small_app({})) as client:
        announced = await client.post("/v1/things", content=b"x" * size)
        streamed = await client.post("/v1/things", content=_chunks(size))
    for answer in (announced, streamed):
        assert answer.status_code == status
        if status == 200:
            assert answer.json() == {"read": size}
        else:
            assert answer.json()["type"] == "/problems/body-too-large"
            assert "1000 bytes" in answer.json()["detail"]


async def test_a_body_is_not_read_before_the_token_is_known() -> None:
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"x"

    async with asking(small_app(TOKENS)) as client:
        assert (await client.post("/v1/things", content=body())).status_code == 401
    assert not read
