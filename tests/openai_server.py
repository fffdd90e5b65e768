"""The two OpenAI routes that an endpoint needs, answered with actions of the tests' maze, seeded by the request.

``POST /control`` takes ``fail`` (refuse so many of the next requests, -1 all) and ``status`` (with which HTTP status),
and forgets what was asked; ``GET /requests`` tells it, each with its ``path`` and ``authorization``.
"""

import argparse
import random
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

ACTIONS = ("north", "north", "south", "take coin", "coin")


@dataclass
class _State:
    fail: int = 0
    status: int = 503
    requests: list[dict[str, Any]] = field(default_factory=list)


def create_app() -> FastAPI:
    """The server."""
    app, state = FastAPI(), _State()

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ready"}

    @app.get("/requests")
    async def requests() -> list[dict[str, Any]]:
        return state.requests

    @app.post("/control")
    async def control(given: dict[str, int]) -> None:
        state.fail, state.status = given["fail"], given["status"]
        state.requests.clear()

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> JSONResponse:
        said = await _said(request, state)
        return said if isinstance(said, JSONResponse) else _answer(message={"role": "assistant", "content": said})

    @app.post("/v1/completions")
    async def completions(request: Request) -> JSONResponse:
        said = await _said(request, state)
        return said if isinstance(said, JSONResponse) else _answer(text=said)

    return app


async def _said(request: Request, state: _State) -> str | JSONResponse:
    body = await request.json()
    if state.fail:
        state.fail -= 1
        return JSONResponse({"error": {"message": "refused for the test", "type": "made_up"}}, state.status)
    state.requests.append({**body, "path": request.url.path, "authorization": request.headers.get("authorization")})
    return random.Random(body["seed"]).choice(ACTIONS)


def _answer(**choice: object) -> JSONResponse:
    """One choice; every word is a token."""
    text = choice.get("text") or choice["message"]["content"]  # type: ignore[index]
    usage = {"prompt_tokens": 11, "completion_tokens": len(str(text).split()), "total_tokens": 0}
    made = {"id": "x", "object": "completion", "created": 0, "model": "words", "usage": usage}
    return JSONResponse(made | {"choices": [{"index": 0, "finish_reason": "stop", **choice}]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(create_app(), port=parser.parse_args().port, log_level="warning")
