"""Signing in to the dashboard: what a browser's cookie opens, and what still takes the token itself."""

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from services.trainer.dashboard.sign_in import COOKIE, SignIn
from shared.service import Access, Scope, Tokens
from shared.service.auth import BearerAuth

TOKEN, OTHER = "jobs-0123456789abcdef", "environments-0123456789"
HTML = {"accept": "text/html"}


def _browser() -> TestClient:
    app = FastAPI()

    @app.get("/runs/{job}")
    def page(job: str) -> str:
        return job

    @app.post("/v1/jobs")
    def change() -> str:
        return "changed"

    @app.websocket("/_nicegui_ws/socket.io/")
    async def connection(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    tokens = Tokens([(TOKEN, [Scope.JOBS]), (OTHER, [Scope.ENVIRONMENTS])])
    app.add_middleware(BearerAuth, tokens=tokens, access=[Access("/v1", {Scope.JOBS})])
    app.add_middleware(SignIn, tokens=tokens, own_token=TOKEN)
    return TestClient(app, follow_redirects=False)


def test_a_browser_signs_in_once_and_reads_pages_and_connects() -> None:
    browser = _browser()
    sent_away = browser.get("/runs/a?x=1", headers=HTML)
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/sign-in?next=/runs/a%3Fx%3D1")
    with pytest.raises(WebSocketDisconnect), browser.websocket_connect("/_nicegui_ws/socket.io/"):
        pass
    assert 'value="/runs/a?x=1"' in browser.get(sent_away.headers["location"]).text

    taken = browser.post("/sign-in", data={"token": TOKEN, "next": "/runs/a?x=1"})
    assert (taken.status_code, taken.headers["location"]) == (303, "/runs/a?x=1")
    assert "HttpOnly" in taken.headers["set-cookie"] and TOKEN not in taken.headers["set-cookie"]
    assert browser.get("/runs/a", headers=HTML).json() == "a"
    with browser.websocket_connect("/_nicegui_ws/socket.io/"):
        pass

    assert browser.get("/sign-out").headers["location"] == "/sign-in"
    assert browser.get("/runs/a", headers=HTML).status_code == 303


@pytest.mark.parametrize("token", ["", "jobs-0123456789abcdeF", OTHER])
def test_a_token_that_does_not_open_jobs_signs_nobody_in(token: str) -> None:
    browser = _browser()
    refused = browser.post("/sign-in", data={"token": token, "next": "/"})
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers
    assert "does not open this service" in refused.text


def test_a_cookie_changes_nothing_by_the_api_since_other_sites_could_send_it_along() -> None:
    browser = _browser()
    browser.post("/sign-in", data={"token": TOKEN})
    assert browser.post("/v1/jobs").status_code == 401
    assert browser.post("/v1/jobs", headers={"authorization": f"Bearer {TOKEN}"}).json() == "changed"


@pytest.mark.parametrize("forged", ["", "9999999999", "9999999999.", "9999999999." + "0" * 64, "x.y", "²." + "0" * 64])
def test_a_made_up_cookie_opens_nothing(forged: str) -> None:
    browser = _browser()
    assert browser.get("/runs/a", headers={"cookie": f"{COOKIE}={forged}".encode()}).status_code == 401


def test_a_cookie_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = _browser()
    browser.post("/sign-in", data={"token": TOKEN})
    monkeypatch.setattr("services.trainer.dashboard.sign_in.time.time", lambda: 4e9)
    assert browser.get("/runs/a").status_code == 401


@pytest.mark.parametrize(
    "elsewhere", ["https://example.org/", "//example.org", "/\\example.org", "javascript:alert(1)"]
)
def test_nobody_is_sent_to_another_site_after_signing_in(elsewhere: str) -> None:
    taken = _browser().post("/sign-in", data={"token": TOKEN, "next": elsewhere})
    assert taken.headers["location"] == "/"
